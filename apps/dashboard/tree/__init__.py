"""The policy tree, as lines and as one picture."""
