"""Search across entries, people, accounts, change sets and sources, and questions in plain words."""
