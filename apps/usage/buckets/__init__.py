"""Usage by account and hour, and sums of it."""
