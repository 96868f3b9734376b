"""What `manage.py doctor` examines: bounded checks, each with findings that name a remedy."""
