"""Computed trees: stored, kept, compared."""
