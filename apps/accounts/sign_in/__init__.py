"""Ways to sign in."""
