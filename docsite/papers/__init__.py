"""The appendix papers.md: each claim of the papers with its test and our number, each figure beside the paper's."""
