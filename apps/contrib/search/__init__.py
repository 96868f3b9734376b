"""Search across entries, people, accounts, jobs, change sets and sources."""
