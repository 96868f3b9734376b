"""Ingest, versions, undo and retention of job records."""
