"""Revisions of a policy, compared and undone."""
