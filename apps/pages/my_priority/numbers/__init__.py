"""Data about an actor's own accounts: rank history, position among others, waits of jobs."""
