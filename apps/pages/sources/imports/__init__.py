"""Files of usage: imported, reported, undone."""
