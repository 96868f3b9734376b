"""A port at which nothing listens. One that a test has just closed may be given to another process meanwhile."""

from __future__ import annotations

CLOSED_PORT = 1  # systems give nobody a port below 1024 who asks for any
