"""Parse Slurm's accounting in JSON: `sacct --json` (21.08 and later) and `jobs` documents of slurmrestd's `/slurmdb`.

Numbers are plain, or since 23.02 {set, infinite, number}. The object `association` may belong to another cluster (its
ids are unique per cluster), so the names beside it are used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, BinaryIO

from django.utils.translation import gettext_noop

from apps.usage.parsers.base import AccountNames, FieldNote, JobClassKey, Parsed, Reading
from apps.usage.parsers.sacct_columns import LONGEST_COLUMN_NAME
from apps.usage.parsers.sluids import sluid_of
from apps.usage.parsers.slurm_billing import BillingWeights
from apps.usage.parsers.slurm_json import (
    JsonJob,
    ReadNames,
    RejectedJob,
    has_job_list,
    inner,
    is_unreadable,
    job_of,
    limit_of,
    number_or_nan,
    read_document,
    seconds_of,
    text_of,
    times_needed,
)
from apps.usage.parsers.slurm_states import accounted_meaning
from apps.usage.parsers.slurm_values import (
    count_tasks,
    is_counted,
    is_no_name,
    is_wckey,
    number_of,
    sum_tres,
    tres_kinds,
)

# Newer releases name the called command, possibly by its path.
_OURS = re.compile(rb'"submission"\s*:|"openapi\\?/dbv|"openapi\\?/slurmdbd"|["/]sacct"')
_LISTED = re.compile(rb'"job_state"\s*:')
_ALLOCATED, _REQUESTED = "tres.allocated", "tres.requested"


class SacctJson:
    """Output of `sacct --json`, and slurmrestd's jobs of the accounting database."""

    name = "sacct-json"
    label = gettext_noop("Slurm accounting in JSON (sacct --json, slurmrestd slurmdb)")
    extensions: tuple[str, ...] = (".json", ".json.gz")
    reference = "https://slurm.schedmd.com/rest_api.html"
    sample = (
        '{"jobs": [{"job_id": 4711, "cluster": "fram", "user": "ada", "account": "physics", "partition": "normal", '
        '"qos": "normal", "state": {"current": ["COMPLETED"]}, "time": {"submission": 1767225600, '
        '"start": 1767225660, "end": 1767229260, "elapsed": 3600, "limit": {"set": true, "infinite": false, '
        '"number": 120}}, "required": {"CPUs": 8}, "tres": {"allocated": [{"type": "cpu", "name": "", "count": 8}, '
        '{"type": "mem", "name": "", "count": 16384}, {"type": "node", "name": "", "count": 1}], "requested": []}, '
        '"steps": []}], "errors": []}\n'
    )
    fields: tuple[FieldNote, ...] = (
        FieldNote(
            "job_id",
            gettext_noop("job (array tasks and parts of heterogeneous jobs have one each); steps are not counted"),
        ),
        FieldNote("user, account", gettext_noop("user, group")),
        FieldNote("cluster", gettext_noop("cluster")),
        FieldNote("partition, qos, reservation.name", gettext_noop("partition, qos, queue")),
        FieldNote("state.current", gettext_noop("finished, running, pending, or withdrawn where it never started")),
        FieldNote("time.submission, time.start, time.end, time.elapsed", gettext_noop("the times, seconds since 1970")),
        FieldNote(
            "time.eligible", gettext_noop("the start of a resized job's later part, where the submission is missing")
        ),
        FieldNote("tres.allocated (tres.requested while it waits)", gettext_noop("cpus, gpus, mem_mb, nodes, billing")),
        FieldNote("tres.allocated with a type, licences, energy", gettext_noop("kinds: gres/gpu:h100 is gpu:h100")),
        FieldNote("time.limit", gettext_noop("requested_s")),
        FieldNote("original_sluid, else sluid", gettext_noop("distinguishes jobs with the same number and submission")),
        FieldNote("wckey.wckey", gettext_noop("noted; its jobs count at account and user, as in Slurm’s fair share")),
    )
    needs_zone = False
    is_listing = False

    def sniff(self, head: bytes) -> bool:
        return has_job_list(head) and bool(_OURS.search(head)) and not _LISTED.search(head)

    def parse(self, stream: BinaryIO, reading: Reading, *, resume: Mapping[str, Any] | None = None) -> Iterator[Parsed]:
        """Parse jobs.

        Raises:
            Invalid: it is not such a document, or contains an error of Slurm.
        """
        return read_document(stream, partial(_read_job, reading.billing), resume, is_listing=False)


def _read_job(weights: BillingWeights, job: dict[str, Any]) -> JsonJob:
    number = job_of(job.get("job_id"))
    time, tres, required = inner(job, "time"), inner(job, "tres"), inner(job, "required")
    state = job.get("state")
    meaning = accounted_meaning(state.get("current") if isinstance(state, dict) else state)
    needed = times_needed(meaning)
    end_s = seconds_of("time.end", time.get("end"), is_needed=needed.end)
    is_end_missing = needed.end and end_s is None
    amounts, bad_amounts = _amounts(_ALLOCATED, tres.get("allocated"))
    more_amounts, bad_requests = _amounts(_REQUESTED, tres.get("requested"))
    allocated, requested = sum_tres(amounts), sum_tres(more_amounts)
    (kinds, bad_kinds), (more_kinds, more_bad_kinds) = tres_kinds(amounts), tres_kinds(more_amounts)
    names = ReadNames()
    partition = names.read("partition", job.get("partition"))
    job_class = JobClassKey(
        names.read("reservation", inner(job, "reservation").get("name")), partition, names.read("qos", job.get("qos"))
    )
    cluster = text_of("cluster", job.get("cluster"))
    if requested.cpus != requested.cpus:  # NaN: not in the list
        requested = requested._replace(cpus=number_or_nan(required.get("CPUs")))
    user = _user(job, cluster)
    not_needed = {"time.limit": time.get("limit"), "time.eligible": time.get("eligible")}
    not_needed["required.CPUs"] = required.get("CPUs")
    not_needed |= {} if needed.start else {"time.start": time.get("start")}
    not_needed |= {} if needed.end else {"time.end": time.get("end")}
    not_needed |= {} if is_end_missing else {"time.elapsed": time.get("elapsed")}
    unreadable = [name for name, value in not_needed.items() if is_unreadable(value)]
    return JsonJob(
        job=number,
        cluster=cluster,
        who=AccountNames(user, text_of("account", job.get("account"), LONGEST_COLUMN_NAME)),
        job_class=job_class,
        meaning=meaning,
        submit_s=seconds_of("time.submission", time.get("submission")),
        eligible_s=seconds_of("time.eligible", time.get("eligible"), is_needed=False),
        start_s=seconds_of("time.start", time.get("start"), is_needed=needed.start),
        end_s=end_s,
        elapsed_s=seconds_of("time.elapsed", time.get("elapsed"), is_needed=is_end_missing),
        allocated=allocated,
        requested=requested,
        allocated_kinds=kinds,
        requested_kinds=more_kinds or kinds,
        exact_billing=weights.billing_of(partition, amounts),
        has_no_allocation=isinstance(tres.get("allocated"), list) and not allocated.nodes > 0,
        limit_s=limit_of(time.get("limit")),
        n_tasks=count_tasks(inner(job, "array").get("task")),
        is_nameless=is_no_name(user),
        original_sluid=sluid_of(job.get("original_sluid")),
        row_sluid=sluid_of(job.get("sluid")),
        has_wckey=is_wckey(inner(job, "wckey").get("wckey")),
        ignored=(*unreadable, *names.ignored, *bad_amounts, *bad_requests, *_kinds_noted(bad_kinds, more_bad_kinds)),
    )


def _kinds_noted(allocated: Sequence[str], requested: Sequence[str]) -> list[str]:
    return [f"{place} {name}" for place, names in ((_ALLOCATED, allocated), (_REQUESTED, requested)) for name in names]


def _user(job: dict[str, Any], cluster: str) -> str:
    user = text_of("user", job.get("user"), LONGEST_COLUMN_NAME)
    association = inner(job, "association")
    if not user and association.get("cluster") == cluster:
        user = text_of("association.user", association.get("user"), LONGEST_COLUMN_NAME)
    if not user:
        raise RejectedJob(
            "no_user", "No user is given (it may be deleted): sacct -P with the columns User,UID gives the UID."
        )
    return user


def _amounts(place: str, listed: Any) -> tuple[list[tuple[str, float]], list[str]]:
    """Amounts of a list of {type, name, count} by name, memory in MB; and the names of those that can't be read."""
    amounts, unreadable = [], []
    for part in listed if isinstance(listed, list) else ():
        if not isinstance(part, dict):
            continue
        kind, name, count = part.get("type"), part.get("name"), number_of(part.get("count"))
        if count is not None and count >= 0:
            amounts.append((f"{kind}/{name}" if isinstance(name, str) and name else str(kind), count))
        elif is_unreadable(part.get("count")) and is_counted(kind):
            unreadable.append(f"{place} {kind}")
    return amounts, unreadable
