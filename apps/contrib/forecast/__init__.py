"""Forecasts of when a level returns to its target, and of an entry's factor, for readers who may see the numbers."""
