"""The client for terminals."""
