"""The kernel: trees, usage and operators in, priorities out. Arrays only; no database, no clock, no files."""

VERSION = "5"  # raised when equal inputs may give other numbers: part of every snapshot's fingerprint
