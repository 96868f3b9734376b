"""Pages that follow what changes: one conditional request for a page, whatever it shows."""
