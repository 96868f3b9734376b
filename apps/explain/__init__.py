"""Why a priority is what it is, and what would change it."""
