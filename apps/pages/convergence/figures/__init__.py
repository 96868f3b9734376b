"""Figures of convergence: actual and target shares of subgroups by day or hour."""
