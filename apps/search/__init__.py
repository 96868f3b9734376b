"""Search across entries, people, accounts, change sets and sources."""
