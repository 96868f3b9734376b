"""Logs in Standard Workload Format, uploaded for experiments: checked, packed, stored once, listed and removed."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
from django.db import transaction
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.accounts.audit_log import record
from apps.contrib.lab.experiments.estimate import MOST_JOBS
from apps.contrib.lab.experiments.left_out import left_out_of
from apps.contrib.lab.experiments.permissions import policy_to_manage, policy_to_read
from apps.contrib.lab.experiments.records import TraceRow
from apps.contrib.lab.models import UploadedTrace
from apps.contrib.lab.simulation.log_jobs import ALLOCATED, GROUP, REQUESTED, REQUESTED_S, RUN, SUBMIT, USER
from apps.core import blobs
from apps.core.errors import Conflict, FieldProblem, Invalid, NotFound, TooLarge
from apps.core.packing import Bounds, Damaged, Expands, packing_of, unpack_gzip
from apps.policies.models import Policy
from apps.policies.tree.names import clean_text

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]
MOST_BYTES = 32 * 1024**2  # as it is sent
MOST_UNPACKED_BYTES = 256 * 1024**2
MOST_TRACES = 20  # of one policy
LONGEST_NAME = 255
_FIELDS = (SUBMIT, RUN, ALLOCATED, REQUESTED, REQUESTED_S, USER, GROUP)
_LARGEST = 2.0**53


@dataclass(frozen=True, eq=False)
class TraceJobs:
    """The usable jobs of a log, (n,), by submission, in seconds from the first one. requested_s: −1 where unknown. who:
    index in users and groups, which are numbers of the log.
    """

    at_s: F8
    run_s: F8
    requested_s: F8
    cpus: I8
    who: I8
    users: I8
    groups: I8

    def pack(self) -> tuple[bytes, str]:
        return blobs.pack({name: getattr(self, name) for name in self.__dataclass_fields__})

    @classmethod
    def unpack(cls, data: bytes | memoryview, digest: str) -> TraceJobs:
        """Raises CorruptBlob as `blobs.unpack`."""
        return cls(**blobs.unpack(data, digest)[0])


def read_log(data: bytes) -> tuple[TraceJobs, Mapping[str, tuple[int, float]]]:
    """(jobs, number of jobs and core-hours that are left out by reason) of a log, packed by gzip or not.

    Raises:
        TooLarge: more than MOST_BYTES, MOST_UNPACKED_BYTES or MOST_JOBS.
        Invalid: not in this format, naming the first wrong line, or `no_submit_times`.
    """
    if len(data) > MOST_BYTES:
        raise TooLarge(_("The log has more than %(n)s MB: pack it by gzip.") % {"n": MOST_BYTES // 1024**2})
    text = _unpacked(data) if packing_of(data[:4]) == "gzip" else data
    if next(_lines(text), None) is None:
        raise _wrong(_("has no jobs"))
    rows = _rows(text)
    if len(rows) > MOST_JOBS:
        raise TooLarge(_("The log has more than %(n)s jobs: cut it.") % {"n": f"{MOST_JOBS:,}"})
    _refuse_without_submit_times(rows)
    cpus = np.where(rows[:, 2] > 0, rows[:, 2], rows[:, 3])
    left_out = {}
    kept = np.ones(len(rows), dtype=np.bool_)
    for reason, applies in (
        ("no_submit_time", rows[:, 0] < 0),
        ("no_run_time", rows[:, 1] <= 0),
        ("no_cpus", cpus < 1),
    ):
        dropped = kept & applies
        kept &= ~applies
        if dropped.any():
            core_s = np.maximum(rows[dropped, 1], 0.0) * np.maximum(cpus[dropped], 0.0)
            left_out[reason] = (int(dropped.sum()), float(core_s.sum()) / 3600.0)
    jobs, cpus = rows[kept], cpus[kept]
    if not len(jobs):
        raise _wrong(_("has no job that ran"))
    order = np.argsort(jobs[:, 0], kind="stable")
    jobs, cpus = jobs[order], cpus[order]
    pairs, who = np.unique(jobs[:, 5:7].astype(np.int64), axis=0, return_inverse=True)
    read = TraceJobs(
        at_s=jobs[:, 0] - jobs[0, 0],
        run_s=jobs[:, 1].copy(),
        requested_s=np.where(jobs[:, 4] > 0, jobs[:, 4], -1.0),
        cpus=cpus.astype(np.int64),
        who=who.reshape(-1).astype(np.int64),
        users=pairs[:, 0].copy(),
        groups=pairs[:, 1].copy(),
    )
    return read, left_out


def _unpacked(data: bytes) -> bytes:
    """Raises Invalid for a damaged or cut file, TooLarge for one that would not end."""
    try:
        return unpack_gzip(data, Bounds(n_bytes=MOST_UNPACKED_BYTES))
    except Expands:
        most = MOST_UNPACKED_BYTES // 1024**2
        raise TooLarge(_("The log has more than %(n)s MB when it is unpacked: cut it.") % {"n": most}) from None
    except Damaged as error:
        place = {"byte": error.position, "why": error.why}
        raise _wrong(_("is packed, and damaged at byte %(byte)s (%(why)s)") % place) from None


def _rows(text: bytes) -> F8:
    """The used fields of each job, (n, 7). numpy reads a million lines in two seconds, and says of none why not."""
    try:
        lines = io.TextIOWrapper(io.BytesIO(text), encoding="ascii", errors="replace")
        rows = np.loadtxt(lines, comments=";", usecols=_FIELDS, dtype=np.float64, ndmin=2)
    except ValueError:
        raise _first_wrong_line(text) from None
    if not np.isfinite(rows).all() or np.abs(rows).max(initial=0.0) > _LARGEST:
        raise _first_wrong_line(text)
    return rows.reshape(len(rows), len(_FIELDS))


def _first_wrong_line(text: bytes) -> Invalid:
    for number, line in _lines(text):
        fields = line.split()
        try:
            values = [float(fields[i]) for i in _FIELDS]
        except (ValueError, IndexError):
            return _wrong(_("has a wrong line %(n)s: it is no job in Standard Workload Format") % {"n": number})
        if not all(abs(value) <= _LARGEST for value in values):
            return _wrong(_("has a wrong line %(n)s: a number isn’t finite or too large") % {"n": number})
    return _wrong(_("is not in Standard Workload Format"))


def _lines(text: bytes) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(io.BytesIO(text), start=1):
        content = line.decode("ascii", "replace").partition(";")[0]
        if content.strip():
            yield number, content


def _refuse_without_submit_times(rows: F8) -> None:
    """A log without them has −1, or one instant for all."""
    if (rows[:, 0] < 0).all() or (len(rows) > 1 and rows[:, 0].min() == rows[:, 0].max()):
        message = _("has no submit times (field 2): nothing can be said about waits")
        raise Invalid(f"log {message}.", code="no_submit_times", fields=[FieldProblem("log", message)])


def _wrong(message: str) -> Invalid:
    return Invalid(f"log {message}.", code="bad_log", fields=[FieldProblem("log", message)])


def upload_trace(*, policy_slug: str, name: str, data: bytes, at: datetime, actor: Actor) -> UploadedTrace:
    """Store a log for experiments on this policy; an equal one that is there is returned.

    Raises as `policy_to_manage` and `read_log`, and Conflict (`too_many_traces`) beyond MOST_TRACES.
    """
    policy = policy_to_manage(slug=policy_slug, at=at, actor=actor)
    try:
        cleaned = clean_text(name, LONGEST_NAME)
    except ValueError as error:
        raise Invalid(f"name {error}.", fields=[FieldProblem("name", str(error))]) from None
    jobs, left_out = read_log(data)
    packed, digest = jobs.pack()
    with transaction.atomic():
        Policy.all_objects.select_for_update(no_key=True).get(pk=policy.pk)
        known = UploadedTrace.objects.filter(policy=policy, digest=digest).first()
        if known is not None:
            return known
        if UploadedTrace.objects.filter(policy=policy).count() >= MOST_TRACES:
            message = _("The policy has %(n)s logs: remove one.") % {"n": MOST_TRACES}
            raise Conflict(message, code="too_many_traces")
        trace = UploadedTrace.objects.create(
            policy=policy,
            name=cleaned or "log.swf",
            data=packed,
            digest=digest,
            summary=_summary(jobs, left_out),
            owner=actor.user,
            owner_name=actor.name,
            created_at=at,
        )
        _record(trace, "policy.trace_uploaded", at=at, actor=actor)
    return trace


def _summary(jobs: TraceJobs, left_out: Mapping[str, tuple[int, float]]) -> dict[str, Any]:
    return {
        "n_jobs": len(jobs.at_s),
        "hours": float(jobs.at_s[-1]) / 3600.0,
        "n_users": len(jobs.users),
        "most_cpus": int(jobs.cpus.max()),
        "left_out": [
            {"reason": reason, "n_jobs": n_jobs, "core_hours": core_hours}
            for reason, (n_jobs, core_hours) in left_out.items()
        ],
    }


@transaction.atomic
def remove_trace(*, policy_slug: str, trace_id: int, at: datetime, actor: Actor) -> None:
    """Delete a log. Experiments that were prepared have its jobs in their own inputs."""
    policy = policy_to_manage(slug=policy_slug, at=at, actor=actor)
    trace = trace_of(policy, trace_id)
    _record(trace, "policy.trace_removed", at=at, actor=actor)
    trace.delete()


def list_traces(*, policy_slug: str, at: datetime, actor: Actor) -> list[TraceRow]:
    """The logs of a policy, newest first."""
    policy = policy_to_read(slug=policy_slug, at=at, actor=actor)
    rows = UploadedTrace.objects.filter(policy=policy).defer("data").order_by("-pk")
    return [trace_row(policy, row) for row in rows]


def trace_row(policy: Policy, row: UploadedTrace) -> TraceRow:
    summary = {name: value for name, value in row.summary.items() if name != "left_out"}
    return TraceRow(
        id=row.pk,
        policy=policy.slug,
        name=row.name,
        **summary,
        left_out=left_out_of(row.summary["left_out"]),
        digest=row.digest,
        owner=row.owner_name,
        created_at=row.created_at,
    )


def trace_of(policy: Policy, trace_id: int) -> UploadedTrace:
    """Raises NotFound."""
    trace = UploadedTrace.objects.filter(policy=policy, pk=trace_id).first() if 0 < trace_id < 2**63 else None
    if trace is None:
        raise NotFound(_("This policy has no log %(id)s.") % {"id": trace_id})
    return trace


def _record(trace: UploadedTrace, verb: str, *, at: datetime, actor: Actor) -> None:
    record(
        actor=actor,
        verb=verb,
        at=at,
        policy_slug=trace.policy.slug,
        subject=trace.name,
        details={"trace": trace.pk, "digest": trace.digest},
    )
