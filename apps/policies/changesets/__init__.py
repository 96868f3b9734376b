"""Drafts, review and conflicts."""
