"""What this site publishes to others."""
