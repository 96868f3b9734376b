"""Which account counts at which entry."""
