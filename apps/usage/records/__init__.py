"""Job records: ingested, versioned, undone, kept for a time."""
