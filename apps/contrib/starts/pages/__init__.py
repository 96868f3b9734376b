"""Pages of promises of starts."""
