"""Bounds of what forms and requests about allocations accept, where no column or service has one."""

from __future__ import annotations

FILE_TEXT = 4_000_000  # characters of a pasted table, bytes of a file
PATHS = 2_000  # characters of paths with commas between
PLAN_TAG = 80
UNIT_RULE = 200  # characters of NAME=SYMBOL*FACTOR
MOST_UNIT_RULES = 100  # in one request
MOST_PORTAL_VALUES = 1_000_000  # of a portal's answers
