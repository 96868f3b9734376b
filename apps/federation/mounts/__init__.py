"""Policies of other authorities mounted in the local tree."""
