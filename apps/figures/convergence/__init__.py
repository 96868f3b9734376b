"""Figures of convergence: shares of subgroups beside their targets, over days or hours."""
