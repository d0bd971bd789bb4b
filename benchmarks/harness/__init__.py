"""How cases are measured and reported; imports neither peers nor cases."""
