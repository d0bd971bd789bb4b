"""Embeddings of tokens and patches, and dropout."""
