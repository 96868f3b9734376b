"""Mapping rules, their order, and their application to accounts."""
