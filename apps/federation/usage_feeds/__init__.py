"""Usage told to other sites, and taken from them."""
