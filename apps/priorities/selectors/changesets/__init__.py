"""Drafts, reviews and requests beside the numbers."""
