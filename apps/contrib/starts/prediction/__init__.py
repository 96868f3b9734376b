"""Promises of when a job starts: bounds of waits that calibrate themselves, and how often they held."""
