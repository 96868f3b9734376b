"""Roles and rights."""
