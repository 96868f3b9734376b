"""Every entry, day by day: derived from buckets and revisions by a run, disposable, built again when these change."""
