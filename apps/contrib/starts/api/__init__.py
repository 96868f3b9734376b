"""REST of promises of starts."""
