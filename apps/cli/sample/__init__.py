"""A synthetic grid that tells a story, so that every page of a fresh installation has something to show."""
