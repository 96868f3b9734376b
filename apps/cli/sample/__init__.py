"""The sample site: a synthetic grid with data for all pages of a new installation."""
