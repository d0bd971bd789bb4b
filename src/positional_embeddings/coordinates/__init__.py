"""Encodings of coordinates."""
