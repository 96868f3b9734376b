"""The log of who did what."""
