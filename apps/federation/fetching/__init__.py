"""Documents of peers, fetched on a schedule."""
