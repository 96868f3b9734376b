"""What follows a publication, beside its change set: the recompute, who moved, and what to do about it."""
