"""Pages that list, compare, revert and restore the revisions of a policy."""
