"""The kernel: trees, usage and operators in, priorities out. Arrays only; no database, no clock, no files."""
