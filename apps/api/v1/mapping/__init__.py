"""Mapping rules, attached accounts."""
