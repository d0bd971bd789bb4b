"""Attention masks: boolean, True where a query may not attend to a key."""
