"""Backup and restore of a whole instance: its database, secrets and uploads, as one file."""
