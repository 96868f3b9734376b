"""Requests for shares, and what waits for one person."""
