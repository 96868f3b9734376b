"""The fields of a record in REST, and the values of each."""

from __future__ import annotations

import re

from apps.usage.parsers.base import MOST_MEM_MB, MOST_RATE, MOST_RESTART, MOST_REVISION
from apps.usage.parsers.field_checks import MOST_CHARACTERS

MOST_REQUESTED_S = 1e12
NUMBERS = {
    **{"cpus": MOST_RATE, "gpus": MOST_RATE, "nodes": MOST_RATE, "billing": MOST_RATE},
    **{"mem_mb": MOST_MEM_MB, "requested_s": MOST_REQUESTED_S},
}
INTEGERS = {"restart": MOST_RESTART, "revision": MOST_REVISION}
TIMES = ("submit", "start", "end")
FIELDS = (*MOST_CHARACTERS, *NUMBERS, *INTEGERS, *TIMES, "state")
KNOWN = frozenset(FIELDS)
REQUIRED = {
    "finished": ("job", "user", "start", "end", "cpus"),
    "running": ("job", "user", "start", "cpus"),
    "pending": ("job", "user", "submit", "cpus"),
    "withdrawn": ("job", "user"),
}
FORBIDDEN = {"running": ("end",), "pending": ("start", "end")}
MAYBE_NUMBER = ("job", "array_task")  # schedulers write them as numbers
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
