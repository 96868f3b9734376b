"""First steps: from a tree and a log to a policy."""
