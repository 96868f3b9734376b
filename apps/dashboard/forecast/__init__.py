"""When priority gets better, and what if."""
