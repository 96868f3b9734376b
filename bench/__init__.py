"""Measured ratios: `make bench` runs `measure()` of every module here, `make bench-large` its `measure_large()`."""
