"""What a reader noticed in a file without refusing anything, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

_SPEED = "service_level "
_WORDS = {
    "arrays_skipped": gettext_lazy("Arrays as such: their tasks are records of their own"),
    "arrays_waiting": gettext_lazy("Waiting arrays: each is one record for its waiting tasks"),
    "bars_in_text": gettext_lazy("Rows with | in free text, put back in their places"),
    "bursts_skipped": gettext_lazy("Bursts of jobs that count as a whole"),
    "charge_without_duration": gettext_lazy("Charges for runs without a duration: not counted"),
    "deletions_without_queued_job": gettext_lazy("Deletions of jobs that had started, or that the file doesn’t queue"),
    "elapsed_too_long": gettext_lazy("Elapsed times longer than end less start: the latter counts"),
    "end_from_elapsed": gettext_lazy("Ends that were told by the elapsed time"),
    "gpu_requests_not_counted": gettext_lazy("Requests for GPUs, of which the file doesn’t tell what was given"),
    "lines_joined": gettext_lazy("Rows that stood on several lines"),
    "memory_ignored": gettext_lazy("Absurd amounts of memory: taken as 0"),
    "never_ran": gettext_lazy("Jobs that never ran"),
    "never_started": gettext_lazy("Jobs that never started"),
    "other_events_skipped": gettext_lazy("Lines of other kinds, such as licences and reservations"),
    "processors_requested": gettext_lazy("Jobs whose requested processors count, as the allocated ones are unknown"),
    "processors_unknown": gettext_lazy("Jobs without a number of processors: taken as one, or one a node"),
    "repeated_hour": gettext_lazy("Times in the hour that clocks go through twice"),
    "reruns_without_times": gettext_lazy("Runs that were repeated, of which the file tells no times"),
    "rescheduled": gettext_lazy("Runs that were rescheduled: they count beside the next"),
    "run_negative": gettext_lazy("Negative run times: taken as 0"),
    "slave_tasks_skipped": gettext_lazy("Slave tasks: their job’s own line has all its slots"),
    "state_unknown": gettext_lazy("States that nobody knows"),
    "status_unknown": gettext_lazy("States that nobody knows"),
    "steps_skipped": gettext_lazy("Steps: they are parts of their job"),
    "suspended": gettext_lazy("Jobs that were suspended"),
    "user_unknown": gettext_lazy("Jobs of unknown users"),
    "wait_unknown": gettext_lazy("Unknown waiting times: taken as 0"),
    "wall_duration_differs": gettext_lazy("Durations unlike end less start: the latter counts"),
}


class Noted(NamedTuple):
    key: str
    words: str
    n: int


def noted(notes: Mapping[str, int]) -> list[Noted]:
    """The most frequent first; a note without words of its own is told by its name."""
    most_first = sorted(notes.items(), key=lambda item: (-item[1], item[0]))
    return [Noted(name, _words(name), n) for name, n in most_first if n]


def _words(name: str) -> str:
    if name.startswith(_SPEED):
        return _("Jobs of a site with the speed %(speed)s") % {"speed": name.removeprefix(_SPEED)}
    return str(_WORDS[name]) if name in _WORDS else name.replace("_", " ")
