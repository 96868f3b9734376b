"""The review of change sets, and lists of them."""
