"""Figures of the allocations pages: core-hours by week, and what is left of promises."""
