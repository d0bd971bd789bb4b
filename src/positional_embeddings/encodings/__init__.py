"""Encodings of positions, coordinates, times and places."""
