"""Usage fetched on a schedule: one file for each kind of source, and the work around them."""
