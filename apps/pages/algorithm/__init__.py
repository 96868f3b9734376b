"""Pages of a policy's algorithm and usage window."""
