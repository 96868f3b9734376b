"""Local-only fallback: a subtree compared by local usage while peers are unreachable."""
