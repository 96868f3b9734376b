"""Usage sent to other sites, and usage ingested from them."""
