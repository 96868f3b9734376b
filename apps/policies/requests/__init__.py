"""Requests for shares, division of a group by its lead, and the inbox of pending decisions."""
