"""A grid on loopback with jobs that are simulated faster than they would run, for people who look at it for minutes."""
