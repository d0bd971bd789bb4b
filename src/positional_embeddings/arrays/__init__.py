"""Backends of array libraries, dtypes, errors, caches and threads."""
