"""Core-hours and capacity."""
