"""Requests from below, and what waits for one person."""
