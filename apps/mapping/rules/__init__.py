"""Mapping rules, and the accounts that each is for."""
