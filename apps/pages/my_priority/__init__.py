"""My priority, and why."""
