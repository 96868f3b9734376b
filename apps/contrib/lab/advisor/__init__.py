"""Advice for one policy: operator, resolution, half-life and algorithm, by criteria measured on it."""
