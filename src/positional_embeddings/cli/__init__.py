"""The command line: `positional-embeddings`, or ``python -m positional_embeddings``."""
