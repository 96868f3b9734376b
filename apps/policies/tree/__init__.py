"""The tree of a revision as columns, edited and compared."""
