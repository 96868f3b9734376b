"""The schema of REST."""
