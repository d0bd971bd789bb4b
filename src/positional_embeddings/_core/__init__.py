"""What all rooms stand on: namespaces, checks, axes, memory, weights, threads."""
