"""Allocations as files and as portals show them: read, compared with those of a policy, and written."""
