"""What a parser noted while it read a log, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.usage.parsers.charged_spans import DIFFERS, LESS_CPU_S, MORE_CPU_S
from apps.usage.parsers.field_values import VALUES_IGNORED
from apps.usage.parsers.ogf_ur import PAYLOADS
from apps.usage.parsers.slurm_values import WCKEYS

_SPEED = "service_level "
_IGNORED = f"{VALUES_IGNORED} "
_WORDS = {
    "arrays_skipped": gettext_lazy("Job arrays: their tasks have their own records"),
    "arrays_waiting": gettext_lazy("Waiting arrays: one record for all waiting tasks"),
    "billing_differs": gettext_lazy(
        "Billing unlike TRESBillingWeights, as recorded: the weights have changed, or are those of another cluster"
    ),
    "billing_whole": gettext_lazy(
        "Billing that Slurm’s records cut to a whole number, so that up to 1 × its seconds of each job is lost: import "
        "the log again with Slurm’s configuration (import_usage --slurm-config)"
    ),
    "begun_at_resize": gettext_lazy("Parts of resized jobs: counted from the resize, not from the job's first start"),
    "bars_in_text": gettext_lazy("Rows with | in free text, repaired"),
    "bursts_skipped": gettext_lazy("Job bursts, counted as a whole"),
    "charge_without_duration": gettext_lazy("Charges without a duration: not counted"),
    "allocation_changes": gettext_lazy("Changed allocations of running jobs: each part is a record"),
    "elapsed_too_long": gettext_lazy("Durations that differ from end − start: end − start counts"),
    "end_from_elapsed": gettext_lazy("Ends calculated from the elapsed time"),
    "ended_skipped": gettext_lazy("Jobs that have ended: the accounting file has them"),
    "ends_unknown": gettext_lazy("Runs without an end: closed at the next one, or after the time they asked for"),
    "starts_unknown": gettext_lazy("Jobs without the line of their start: their log began before"),
    "phases_unknown": gettext_lazy(
        "Jobs that were suspended or changed without a line that says when: their walltime shows how long, if it can"
    ),
    "gpu_requests_not_counted": gettext_lazy("GPU requests without an allocated number"),
    "lines_ignored": gettext_lazy("Lines of jobs that have more than 20,000 of them: not read"),
    "lines_unexplained": gettext_lazy(
        "Lines about jobs that are neither in the file nor stored: they apply once the log before it is imported"
    ),
    "lines_joined": gettext_lazy("Rows that spanned several lines"),
    "never_ran": gettext_lazy("Jobs that never started"),
    "never_started": gettext_lazy("Jobs that never started"),
    "no_processors": gettext_lazy("Jobs with 0 processors: no usage counts"),
    "other_events_skipped": gettext_lazy("Lines of other kinds, such as licences and reservations"),
    "processors_requested": gettext_lazy("Jobs counted by requested processors, as the allocated ones are unknown"),
    "earlier_runs_joined": gettext_lazy("Jobs that ran before: their earlier runs are one record"),
    "earlier_runs_unknown": gettext_lazy("Jobs that ran before: the history has their last run alone"),
    "jobs_without_slots": gettext_lazy("Jobs of the scheduler, local or grid universe, without slots: not counted"),
    "kinds_too_many": gettext_lazy("Jobs with more kinds of resources than are kept: counted in their sums"),
    "processors_unknown": gettext_lazy("Jobs without a processor count: set to one, or one per node"),
    "repeated_hour": gettext_lazy("Ambiguous times at the clock change"),
    "rescheduled": gettext_lazy("Rescheduled runs: counted in addition to the next"),
    "exclusive_jobs": gettext_lazy("Jobs that asked for whole hosts: counted by their slots"),
    "ran_elsewhere": gettext_lazy("Jobs that another cluster ran: counted by its own log"),
    "reservations_skipped": gettext_lazy("Advance reservations: their jobs have their own lines"),
    "run_negative": gettext_lazy("Negative run times: set to 0"),
    "slave_tasks_skipped": gettext_lazy("Slave tasks: included in the line of their job"),
    "state_unknown": gettext_lazy("Unknown states"),
    "status_unknown": gettext_lazy("Unknown states"),
    "steps_skipped": gettext_lazy("Steps: included in their job"),
    "suspensions": gettext_lazy("Suspensions: their time doesn't count"),
    "suspensions_counted": gettext_lazy("Jobs that were suspended: they held their slots, so that time counts"),
    "suspended": gettext_lazy("Jobs that were suspended"),
    "user_unknown": gettext_lazy("Jobs of unknown users"),
    "users_by_number": gettext_lazy("Jobs whose user has no name: under the number"),
    "values_ignored": gettext_lazy("Rows with an unreadable value that usage doesn't need: counted without it"),
    "wait_unknown": gettext_lazy("Unknown waiting times: set to 0"),
    WCKEYS: gettext_lazy("Jobs with a wckey: they count at their account and user, as in Slurm’s fair share"),
    DIFFERS: gettext_lazy("Durations that differ from end − start: the duration counts, up to the end"),
    LESS_CPU_S: gettext_lazy("CPU-hours between start and end that such durations leave out"),
    MORE_CPU_S: gettext_lazy("CPU-hours that such durations have beyond end − start"),
    PAYLOADS: gettext_lazy("Payloads of pilots: counted by the pilot’s own record"),
}
_IN_HOURS = (LESS_CPU_S, MORE_CPU_S)  # stored in seconds, so that pieces add up
_LOST = ("billing_differs", "billing_whole")


class Note(NamedTuple):
    key: str
    words: str
    n: int


def note_lines(notes: Mapping[str, int]) -> list[Note]:
    """Notes of a parser in words, most frequent first; a note without a text is shown by its name."""
    most_first = sorted(notes.items(), key=lambda item: (-item[1], item[0]))
    return [Note(name, _words(name), round(n / 3600) if name in _IN_HOURS else n) for name, n in most_first if n]


def lost_lines(notes: Mapping[str, int]) -> list[Note]:
    """Only the notes of usage that is lost although the log has it."""
    return [note for note in note_lines(notes) if note.key in _LOST]


def _words(name: str) -> str:
    if name.startswith(_SPEED):
        return _("Jobs of a site with the speed %(speed)s") % {"speed": name.removeprefix(_SPEED)}
    if name.startswith(_IGNORED):
        return _("Values of %(name)s that can’t be read, and that usage doesn’t need: counted without them") % {
            "name": name.removeprefix(_IGNORED)
        }
    return str(_WORDS[name]) if name in _WORDS else name.replace("_", " ")
