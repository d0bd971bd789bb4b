"""What models of Hugging Face do, from their configurations."""
