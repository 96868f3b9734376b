"""Other authorities, mounts, usage of other sites."""
