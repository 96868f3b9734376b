"""An entry over all sites, and the peers behind it."""
