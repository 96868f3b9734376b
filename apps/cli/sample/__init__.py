"""A synthetic grid with something to show on every page of a fresh installation."""
