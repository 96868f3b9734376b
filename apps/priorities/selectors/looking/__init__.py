"""A policy as one reader sees it, now or in the past."""
