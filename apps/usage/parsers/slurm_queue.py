"""Parse Slurm's pending and running jobs: `squeue --json` and `jobs` documents of slurmrestd's `/slurm`.

Recently ended jobs are listed too, and imported with their end. The start of a pending job and the end of a running one
are estimates of Slurm, and ignored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from django.utils.translation import gettext_noop

from apps.core.resource_kinds import NO_KINDS, Kinds
from apps.usage.parsers.base import AccountNames, FieldNote, JobClassKey, Parsed, Reading
from apps.usage.parsers.sacct_columns import LONGEST_COLUMN_NAME
from apps.usage.parsers.sluids import NO_SLUID, sluid_of
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
from apps.usage.parsers.slurm_states import listed_meaning
from apps.usage.parsers.slurm_values import (
    Tres,
    count_tasks,
    is_no_name,
    is_wckey,
    list_gres,
    number_of,
    read_tres,
    sum_tres,
    tres_kinds,
)

_LISTED = re.compile(rb'"job_state"\s*:|"openapi\\?/v\d|"openapi\\?/slurmctld"|["/]squeue"|"last_backfill"\s*:')
_ACCOUNTED = re.compile(rb'"submission"\s*:')


class SlurmQueue:
    """Output of `squeue --json`, and slurmrestd's jobs of the controller: a complete listing."""

    name = "squeue-json"
    label = gettext_noop("Slurm's running and waiting jobs in JSON (squeue --json, slurmrestd slurm)")
    extensions: tuple[str, ...] = (".json", ".json.gz")
    reference = "https://slurm.schedmd.com/squeue.html"
    sample = (
        '{"jobs": [{"job_id": 4713, "cluster": "fram", "user_name": "ada", "user_id": 1001, "account": "physics", '
        '"partition": "normal", "qos": "normal", "job_state": ["RUNNING"], "submit_time": 1767225600, '
        '"start_time": 1767225660, "end_time": 1767232860, "time_limit": 120, "cpus": 8, '
        '"tres_alloc_str": "cpu=8,mem=16G,node=1,billing=8", "tres_req_str": "cpu=8,mem=16G,node=1,billing=8"}], '
        '"errors": []}\n'
    )
    fields: tuple[FieldNote, ...] = (
        FieldNote("job_id", gettext_noop("job (array tasks that run have one each; those that wait are one)")),
        FieldNote("user_name, else user_id; account", gettext_noop("user, group")),
        FieldNote("cluster", gettext_noop("cluster")),
        FieldNote("partition, qos, resv_name", gettext_noop("partition, qos, queue")),
        FieldNote(
            "job_state", gettext_noop("running, pending; ended jobs as finished, or withdrawn where they never started")
        ),
        FieldNote("submit_time, start_time, end_time", gettext_noop("the times, seconds since 1970")),
        FieldNote("resize_time", gettext_noop("submit and start of a resized job's part that runs, as in accounting")),
        FieldNote(
            "tres_alloc_str (tres_req_str while it waits), cpus, node_count",
            gettext_noop("cpus, gpus, mem_mb, nodes, billing"),
        ),
        FieldNote("gres_detail", gettext_noop("gpus, where TRES doesn’t track them")),
        FieldNote("time_limit", gettext_noop("requested_s")),
        FieldNote("step_id.sluid", gettext_noop("distinguishes jobs with the same number and submission")),
    )
    needs_zone = False
    is_listing = True

    def sniff(self, head: bytes) -> bool:
        is_accounting = bool(_ACCOUNTED.search(head)) and b'"job_state"' not in head
        return has_job_list(head) and bool(_LISTED.search(head)) and not is_accounting

    def parse(self, stream: BinaryIO, reading: Reading, *, resume: Mapping[str, Any] | None = None) -> Iterator[Parsed]:
        """Parse jobs.

        Raises:
            Invalid: it is not such a document, incomplete, or contains an error of Slurm.
        """
        return read_document(stream, _read_job, resume, is_listing=True)


def _read_job(job: dict[str, Any]) -> JsonJob:
    number, meaning = job_of(job.get("job_id")), listed_meaning(job.get("job_state"))
    needed = times_needed(meaning)
    start_s = seconds_of("start_time", job.get("start_time"), is_needed=needed.start)
    end_s = seconds_of("end_time", job.get("end_time"), is_needed=needed.end)
    submit_s = seconds_of("submit_time", job.get("submit_time"))
    resized_s = seconds_of("resize_time", job.get("resize_time"), is_needed=False)
    limit_s = limit_of(job.get("time_limit"))
    if needed.start and start_s and resized_s is not None and resized_s > start_s:
        # As slurmdbd stores the part that runs since then; the limit counts from the job's first start.
        limit_s = None if limit_s is None else max(limit_s - (resized_s - start_s), 0.0)
        submit_s = start_s = resized_s
    cpus, nodes = (number_or_nan(job.get(name)) for name in ("cpus", "node_count"))
    allocated, kinds, bad_amounts = _tres("tres_alloc_str", job, is_needed=needed.start and math.isnan(cpus))
    if math.isnan(allocated.gpus):
        allocated, kinds = _with_gres(allocated, kinds, job.get("gres_detail"))
    requested, more_kinds, bad_requests = _tres("tres_req_str", job, is_needed=False)
    has_no_allocation = isinstance(job.get("tres_alloc_str"), str) and not allocated.nodes > 0
    names = ReadNames()
    job_class = JobClassKey(
        names.read("resv_name", job.get("resv_name")),
        names.read("partition", job.get("partition")),
        names.read("qos", job.get("qos")),
    )
    user, uid = _user(job)
    not_needed = ["billable_tres", "resize_time", "time_limit", "cpus", "node_count"]
    not_needed += [] if needed.start else ["start_time"]
    not_needed += [] if needed.end else ["end_time"]
    return JsonJob(
        job=number,
        cluster=text_of("cluster", job.get("cluster")),
        who=AccountNames(user, text_of("account", job.get("account"), LONGEST_COLUMN_NAME)),
        job_class=job_class,
        meaning=meaning,
        submit_s=submit_s,
        eligible_s=None,
        start_s=start_s,
        end_s=end_s,
        elapsed_s=None,
        allocated=allocated._replace(cpus=cpus) if math.isnan(allocated.cpus) else allocated,
        requested=_filled(requested, cpus, nodes),
        allocated_kinds=kinds,
        requested_kinds=more_kinds or kinds,
        exact_billing=number_or_nan(job.get("billable_tres")),
        has_no_allocation=has_no_allocation,
        limit_s=limit_s,
        n_tasks=count_tasks(job.get("array_task_string")),
        is_nameless=is_no_name(user, uid),
        original_sluid=sluid_of(inner(job, "step_id").get("sluid")),
        row_sluid=NO_SLUID,
        has_wckey=is_wckey(job.get("wckey")),
        ignored=(
            *(name for name in not_needed if is_unreadable(job.get(name))),
            *names.ignored,
            *bad_amounts,
            *bad_requests,
        ),
    )


def _user(job: dict[str, Any]) -> tuple[str, str]:
    """The user's name, else the number as text; and the number."""
    user = text_of("user_name", job.get("user_name"), LONGEST_COLUMN_NAME)
    number = number_of(job.get("user_id"))
    uid = "" if number is None else str(int(number))
    if not user and not uid:
        raise RejectedJob("no_user", "Neither user_name nor user_id is given: query as a user who may see all jobs.")
    return user or uid, uid


def _tres(name: str, job: dict[str, Any], *, is_needed: bool) -> tuple[Tres, Kinds, list[str]]:
    """Amounts of a list, those by kind, and the names of those that can't be read."""
    text = job.get(name)
    try:
        amounts, kinds, unreadable = read_tres(text) if isinstance(text, str) else (Tres(), NO_KINDS, ())
    except ValueError as error:
        if not is_needed:
            return Tres(), NO_KINDS, [name]
        raise RejectedJob("bad_tres", f"{name} is not a list like cpu=2,mem=4000M,node=1.") from error
    return amounts, kinds, [f"{name} {part}" for part in unreadable]


def _with_gres(tres: Tres, kinds: Kinds, hosts: Any) -> tuple[Tres, Kinds]:
    """With the GPUs that the controller lists by host: AccountingStorageTRES names none, so that no TRES has them."""
    listed = (
        [pair for host in hosts if isinstance(host, str) for pair in list_gres(host)] if isinstance(hosts, list) else []
    )
    gpus = sum_tres(listed).gpus
    if math.isnan(gpus):
        return tres, kinds
    of_gpus = [(name, amount) for name, amount in listed if name.startswith("gres/gpu")]
    return tres._replace(gpus=gpus), (*kinds, *tres_kinds(of_gpus)[0])


def _filled(tres: Tres, cpus: float, nodes: float) -> Tres:
    return tres._replace(
        cpus=cpus if math.isnan(tres.cpus) else tres.cpus, nodes=nodes if math.isnan(tres.nodes) else tres.nodes
    )
