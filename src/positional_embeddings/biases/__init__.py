"""Biases of attention scores by relative position."""
