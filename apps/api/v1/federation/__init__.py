"""Peers, mounts, subscriptions, publications."""
