"""Usage sources, and how each is collected."""
