"""Import and export of policies as files."""
