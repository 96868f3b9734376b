"""Views of lists that people keep: saved, renamed, deleted, and one of them the default."""
