"""When and how priorities are computed."""
