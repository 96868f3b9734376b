"""What people should know without looking: rules, notices, the ways they go out, and monthly statements."""
