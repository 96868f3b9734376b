"""Measured ratios: `make bench` runs `measure()` of every module here."""
