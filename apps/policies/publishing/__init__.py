"""How a revision comes into force: published, scheduled, reverted."""
