"""Long doubles, ties, and the order in which entries are walked."""
