"""Core-hours promised, capacity, calendar, dates of shares."""
