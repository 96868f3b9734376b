"""Allocations of core-hours, and capacity."""
