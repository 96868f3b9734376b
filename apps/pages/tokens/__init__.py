"""Own API tokens."""
