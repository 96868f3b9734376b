"""Policies of other authorities in the own tree."""
