"""Policies out of files and into them."""
