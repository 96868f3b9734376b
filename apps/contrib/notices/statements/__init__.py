"""Monthly statements of groups: entitled, used, lent and borrowed usage, and how certain it is."""
