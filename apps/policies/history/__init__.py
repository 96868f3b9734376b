"""The past of a policy, as far as somebody may read it."""
