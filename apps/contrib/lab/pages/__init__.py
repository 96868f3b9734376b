"""Pages of experiments: the list with its questions, the builder, one experiment, and evidence on a review."""
