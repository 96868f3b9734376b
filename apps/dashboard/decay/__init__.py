"""Window and decay function of a policy."""
