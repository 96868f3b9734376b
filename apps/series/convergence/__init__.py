"""Convergence: compares daily actual shares of entries with their target shares, as numbers, states and sentences."""
