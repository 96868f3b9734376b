"""How a revision becomes current: published, scheduled, reverted."""
