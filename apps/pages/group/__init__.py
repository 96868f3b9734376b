"""Pages of the group that a user leads or belongs to."""
