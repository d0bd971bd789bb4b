"""Reference attention."""
