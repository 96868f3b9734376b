"""Usage sources and their collection."""
