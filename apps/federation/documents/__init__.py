"""Formats of documents, signing keys, and the acceptance of documents."""
