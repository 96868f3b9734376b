"""Members of entries."""
