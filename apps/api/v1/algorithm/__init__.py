"""Algorithms, operators, comparison."""
