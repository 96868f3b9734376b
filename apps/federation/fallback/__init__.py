"""What holds when a peer is silent."""
