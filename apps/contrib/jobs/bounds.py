"""Bounds of what the pages and routes of jobs accept."""

from __future__ import annotations

from apps.contrib.jobs.models import Job
from apps.core.column_bounds import most_characters

GATEWAY_JOB = most_characters(Job, "job")
LARGEST_PRIORITY = 1e15  # of a job in front or at the back of the queue
PASTED = 2_000_000
