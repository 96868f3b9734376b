"""Parsers of accounting formats, one file each."""
