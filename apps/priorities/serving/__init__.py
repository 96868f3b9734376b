"""Look-ups, answered from memory."""
