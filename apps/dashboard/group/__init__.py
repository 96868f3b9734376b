"""My group."""
