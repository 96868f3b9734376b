"""Target and actual share, day by day."""
