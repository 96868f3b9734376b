"""From a scheduler's tree and its accounting log to a first policy: what was promised beside what was used."""
