"""Subtrees compared by this site's usage alone."""
