"""Live updates of open pages."""
