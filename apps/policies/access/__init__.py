"""Roles, grants, delegation and authority."""
