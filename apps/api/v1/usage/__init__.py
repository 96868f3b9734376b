"""Usage sources, imports, records, quality."""
