"""Core-seconds delivered, as recorded."""
