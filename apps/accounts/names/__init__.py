"""Names under which jobs run."""
