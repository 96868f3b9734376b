"""Pages of algorithms, operators and resolution."""
