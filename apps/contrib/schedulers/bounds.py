"""Bounds of what agents report and readers ask about schedulers."""

from __future__ import annotations

from apps.contrib.schedulers.models import AgentPass, LimitListing, LimitSettings, Scheduler
from apps.core.column_bounds import most_characters

NAME = most_characters(Scheduler, "name")
PARTITION = most_characters(Scheduler, "partitions")
AGENT = most_characters(AgentPass, "agent")
HOST = most_characters(AgentPass, "host")
VERSION = most_characters(AgentPass, "scheduler_version")
DETAIL = most_characters(AgentPass, "frozen_detail")

# Of reports, which are stored as they come.
CODE = 64
TAG = 64  # of the scheduler's shares
LINE_DETAIL = 300
SHARE_TEXT = 10  # a whole number, or parent
PARTITION_LIST = 1_024  # names with commas between
REPORTED_KINDS = 100  # of errors, and of unmapped names
CHECKS = 200
RESTORED_SHARES = 20_000
CLUSTER = most_characters(LimitListing, "cluster")
ENDED_BY = most_characters(LimitListing, "ended_by")
ACCOUNT = most_characters(LimitSettings, "canary_account")
ACCOUNT_LIST = 200_000  # names with commas between
REPORTED_LIMITS = 3_000
RESTORED_LIMITS = 20_000
AGE_S = 1e12

# Rows of a page.
WAITING_ROWS = 1_000
PASS_ROWS = 500
