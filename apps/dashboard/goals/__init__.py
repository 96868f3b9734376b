"""Goals of an entry: which change brings it to its target by a day."""
