"""Relative positions, and the biases of attention scores that depend on them."""
