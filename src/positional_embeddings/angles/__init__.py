"""Frequencies, exact angles, and tables of cosines and sines."""
