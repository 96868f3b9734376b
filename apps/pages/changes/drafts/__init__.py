"""The editor of change sets."""
