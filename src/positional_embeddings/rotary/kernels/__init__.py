"""Compiled kernels that rotate in one pass over memory; optional."""
