"""The page that chooses which past usage a policy counts: usage window and decay function."""
