"""Change sets: drafts, review, publication and follow-up."""
