"""Snapshots as one reader may see them, now or in the past."""
