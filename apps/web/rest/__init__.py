"""The JSON face: REST v1, health and metrics."""
