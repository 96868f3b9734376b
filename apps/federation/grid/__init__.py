"""The grid view: an entry over all sites, and the table of peers."""
