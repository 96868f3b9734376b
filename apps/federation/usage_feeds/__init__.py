"""Usage sent to and ingested from other sites."""
