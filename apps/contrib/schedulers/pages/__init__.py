"""Schedulers and their agents; why a job waits."""
