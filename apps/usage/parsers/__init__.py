"""Accounting formats, one file each."""
