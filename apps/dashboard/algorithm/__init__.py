"""Algorithms, operators and resolution."""
