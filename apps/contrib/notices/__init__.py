"""Events that people should learn of: rules, notices, delivery, and monthly statements."""
