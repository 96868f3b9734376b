"""Usage sources."""
