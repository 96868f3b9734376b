"""Search across entries, people, accounts, change sets and sources, and a small set of typed questions."""
