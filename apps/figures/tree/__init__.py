"""A tree as nested fields, icicle or treemap: where the imbalance is, and who has how much."""
