"""Allocated core-hours, capacity, calendar, dates of shares."""
