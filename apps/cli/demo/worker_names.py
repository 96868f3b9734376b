"""Names that workers and the programs beside them share."""

POLICY = "grid"
SOURCE = "cluster"
