"""Starts the command line by ``python -m positional_embeddings``."""

from positional_embeddings.cli.main import main

raise SystemExit(main())
