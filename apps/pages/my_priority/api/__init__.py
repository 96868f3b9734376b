"""The caller's priorities: explanations, comparisons and forecasts."""
