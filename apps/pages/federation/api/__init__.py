"""Federation: peers, mounts, subscriptions, publications, feeds and keys."""
