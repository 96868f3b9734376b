"""Computing priorities: inputs, calculation, hypothetical changes, and when a recompute is due."""
