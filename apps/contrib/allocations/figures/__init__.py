"""Figures of the allocations pages: core-hours by week, and allocated core-hours left."""
