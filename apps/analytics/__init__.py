"""Analyses of priorities over time: daily series, convergence, forecasts, what-if scenarios, comparisons, goals."""
