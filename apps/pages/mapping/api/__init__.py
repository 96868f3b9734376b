"""Mapping of accounts to entries: rules, versions and attached accounts."""
