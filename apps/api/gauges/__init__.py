"""What Prometheus reads of the site's state, by noun: sources, policies, their greatest groups, runs."""
