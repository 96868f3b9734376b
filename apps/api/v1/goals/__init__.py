"""Goals: which change brings an entry to its target by a date."""
