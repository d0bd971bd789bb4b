"""The array library, device and dtypes of a call, and what is known of each library."""
