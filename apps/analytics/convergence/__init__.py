"""Does use follow the policy: shares day by day beside their targets, in figures and in words."""
