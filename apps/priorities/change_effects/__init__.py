"""What a change set does to priorities and accounts."""
