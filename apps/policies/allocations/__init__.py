"""Core-hours: capacity per site, allocations by entry and days, and conversion between allocations and shares."""
