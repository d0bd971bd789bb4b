"""What is measured: each module makes the cases of a topic."""
