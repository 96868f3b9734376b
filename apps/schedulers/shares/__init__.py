"""Shares of a policy in a scheduler that keeps its own fair share: compared, ordered line by line, taken over."""
