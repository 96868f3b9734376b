"""Which account counts at which entry: rules, attachments, claims, membership, versions."""
