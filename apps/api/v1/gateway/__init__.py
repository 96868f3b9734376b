"""SAM's gateway by REST."""
