"""Absolute position encodings, which are added to the features."""
