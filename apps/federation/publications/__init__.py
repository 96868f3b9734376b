"""What this site publishes of its policies."""
