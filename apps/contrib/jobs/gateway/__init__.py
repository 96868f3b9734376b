"""SAM's gateway: a kept ledger for each policy, so that a queue asks about a job with its id alone."""
