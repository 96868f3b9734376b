"""My priority, its walk, forecast and figures."""
