"""docs/papers.md: each claim of the five papers with its test and our number, and each figure beside the paper's."""
