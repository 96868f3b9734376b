"""The one-command local stack: embedded PostgreSQL, web, worker, beat and their supervisor."""
