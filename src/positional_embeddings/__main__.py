"""Print versions, libraries, devices and kernels: ``python -m positional_embeddings``."""

from positional_embeddings.versions import show_versions

show_versions()
