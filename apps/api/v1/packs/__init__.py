"""Committee packs."""
