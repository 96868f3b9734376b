"""Usage sources, records, hourly sums and data quality."""
