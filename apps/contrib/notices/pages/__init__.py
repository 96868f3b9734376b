"""Notices, their rules, mail and webhooks."""
