"""The overview: does the policy hold, and what needs somebody."""
