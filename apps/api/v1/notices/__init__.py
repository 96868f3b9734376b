"""Notices and statements."""
