"""What is missing or wrong in the data."""
