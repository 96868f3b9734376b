"""Sign-in: passwords, directories, second factors and sessions."""
