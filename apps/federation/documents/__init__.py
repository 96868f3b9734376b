"""Wire formats, keys, and whether a document is accepted."""
