"""Policies, revisions, trees, grants."""
