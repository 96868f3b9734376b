"""Schedulers and their agents: settings, orders, passes, queue, waiting jobs, shares, shadow mode and SAM's gateway."""
