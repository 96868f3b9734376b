"""The state of the machine for managers: who waits how long, and who runs on whose unused share."""
