"""Backends of array libraries: one module and one class for each library."""
