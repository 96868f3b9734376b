"""Days of a series as rows and tiles."""
