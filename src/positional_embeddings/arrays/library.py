"""Old names, while the rooms move to `Space`."""

from positional_embeddings.arrays.shims import library_of, library_of_namespace  # noqa: F401
