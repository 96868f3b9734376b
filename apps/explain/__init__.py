"""Explanations of priorities: the path from the root to an account, comparisons of two leaves, and advice."""
