"""Pages and REST of usage adjustments: usage credited or charged to an entry."""
