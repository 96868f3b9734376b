"""What becomes of priorities over time: daily series, convergence, forecasts, trials, comparisons."""
