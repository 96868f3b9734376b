"""One entry, and where its shares are changed."""
