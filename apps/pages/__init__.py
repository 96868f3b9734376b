"""Slices: everything of a feature in one folder."""
