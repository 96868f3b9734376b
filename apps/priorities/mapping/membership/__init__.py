"""Members by rule."""
