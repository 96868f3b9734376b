"""Who sees what of a snapshot."""
