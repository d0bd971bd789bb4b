"""Checks of arguments: numbers, axes, positions and lengths."""
