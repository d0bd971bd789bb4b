"""The ways to compute an attention, one in each module."""
