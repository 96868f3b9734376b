"""What is missing or odd in the data."""
