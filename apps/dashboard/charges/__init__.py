"""What jobs count."""
