"""Shadow mode: where the scheduler's own numbers and ours differ, why, and since when they agree."""
