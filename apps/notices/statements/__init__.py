"""Monthly statements of groups: what each was entitled to, used, lent and borrowed, and how sure that is."""
