"""Pages of target and actual share by day."""
