"""Schedulers: connected and changed by managers, orders and passes of their agents, the queue, why a job waits."""
