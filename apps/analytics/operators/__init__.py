"""Operators and resolution: what each operator tells apart, and what a resolution does to the tree of a policy."""
