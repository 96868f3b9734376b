"""Find missing and wrong usage data."""
