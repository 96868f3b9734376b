"""Create a first policy from a scheduler's tree and accounting log, and compare shares with usage."""
