"""What is known of each array library: one class a library."""
