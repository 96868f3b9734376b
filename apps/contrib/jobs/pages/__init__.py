"""Pages that explain the priorities of jobs in a listing or a case."""
