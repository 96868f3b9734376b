"""The grid view: an entry over all sites."""
