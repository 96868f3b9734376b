"""Logs in Standard Workload Format, uploaded for experiments: counted, stored once, read, listed and removed.

The request counts the jobs within bounds and stores the bytes; `trace_runs` reads them in a worker.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from django.db import transaction
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from apps.accounts.actor import SYSTEM, Actor
from apps.accounts.audit_log import record
from apps.contrib.lab.experiments.estimate import MOST_VARIANT_JOBS
from apps.contrib.lab.experiments.left_out import left_out_of
from apps.contrib.lab.experiments.permissions import policy_to_manage, policy_to_read
from apps.contrib.lab.experiments.records import TraceRow, TraceState
from apps.contrib.lab.models import UploadedTrace
from apps.contrib.lab.simulation.log_jobs import ALLOCATED, GROUP, REQUESTED, REQUESTED_S, RUN, SUBMIT, USER
from apps.core import blobs
from apps.core.errors import Conflict, FieldProblem, Invalid, NotFound, TooLarge
from apps.core.packing import Bounds, Damaged, Expands, Unpacker, packing_of
from apps.policies.models import Policy
from apps.policies.tree.names import clean_text
from apps.runs.models import Run
from apps.runs.services import cancel_run, enqueue_run
from apps.runs.waiting import waiting_of

KIND = "lab_log"
F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]
MOST_TRACE_BYTES = 32 * 1024**2  # as it is sent
MOST_UNPACKED_BYTES = 256 * 1024**2
MOST_TRACES = 20  # of one policy
LONGEST_TRACE_NAME = 255
_FIELDS = (SUBMIT, RUN, ALLOCATED, REQUESTED, REQUESTED_S, USER, GROUP)
_WHOLE = (2, 3, 5, 6)  # columns of processors, users and groups
_LARGEST = 2.0**53
_PART_BYTES = 256 * 1024  # other threads wait while numpy reads one part: about 15 ms
_ATTEMPTS = 5


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


def count_log(data: bytes) -> str:
    """The digest of the text of a log, packed by gzip or not, whose lines are counted and not read.

    Raises as `read_log` for what is too large, damaged or without jobs.
    """
    digest = hashlib.sha256()
    for piece in _counted(data):
        digest.update(piece)
    return digest.hexdigest()


def read_log(
    data: bytes, *, digest: str = "", done: Callable[[], None] = lambda: None
) -> tuple[TraceJobs, Mapping[str, tuple[int, float]]]:
    """(jobs, number of jobs and core-hours that are left out by reason) of a log, packed by gzip or not.

    digest: of `count_log`, if it is known. done: is called after each part of a few milliseconds.

    Raises:
        TooLarge: more than MOST_TRACE_BYTES, MOST_UNPACKED_BYTES or MOST_VARIANT_JOBS; found before anything is read.
        Invalid: not in this format, naming the first wrong line, or `no_submit_times`.
        Conflict: `damaged`, it has another digest.
    """
    text = b"".join(_counted(data))
    if digest and hashlib.sha256(text).hexdigest() != digest:
        raise Conflict(_("The stored log is damaged: upload it again."), code="damaged")
    if next(_lines(text), None) is None:
        raise _wrong(_("has no jobs"))
    rows = _rows(text, done)
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
    users, groups, who = _people(jobs[:, 5].astype(np.int64), jobs[:, 6].astype(np.int64))
    read = TraceJobs(
        at_s=jobs[:, 0] - jobs[0, 0],
        run_s=jobs[:, 1].copy(),
        requested_s=np.where(jobs[:, 4] > 0, jobs[:, 4], -1.0),
        cpus=cpus.astype(np.int64),
        who=who,
        users=users,
        groups=groups,
    )
    return read, left_out


def _people(users: I8, groups: I8) -> tuple[I8, I8, I8]:
    """(users, groups, who): the distinct pairs, ascending, and the index of each job's pair among them.

    By one number a pair: `np.unique` of rows stops all other threads for seconds.
    """
    known_users, user = np.unique(users, return_inverse=True)
    known_groups, group = np.unique(groups, return_inverse=True)
    pairs, who = np.unique(user.astype(np.int64) * len(known_groups) + group, return_inverse=True)
    user_of, group_of = np.divmod(pairs, len(known_groups))
    return known_users[user_of], known_groups[group_of], who.astype(np.int64)


class _JobCount:
    """Counts the jobs of a log by its lines, piece by piece, without reading them."""

    def __init__(self) -> None:
        self.n = 0
        self._last = b"\n"

    def add(self, piece: bytes) -> None:
        """Raises TooLarge beyond MOST_VARIANT_JOBS."""
        joined = self._last + piece
        self.n += joined.count(b"\n", 0, -1) - sum(joined.count(other) for other in (b"\n;", b"\n\n", b"\n\r"))
        self._last = joined[-1:]
        if self.n > MOST_VARIANT_JOBS:
            raise TooLarge(_("The log has more than %(n)s jobs: cut it.") % {"n": f"{MOST_VARIANT_JOBS:,}"})


def _counted(data: bytes) -> Iterator[bytes]:
    """The text of a log of 1 to MOST_VARIANT_JOBS jobs, piece by piece.

    Raises Invalid for a damaged or cut file, TooLarge for one that would not end.
    """
    if len(data) > MOST_TRACE_BYTES:
        raise TooLarge(_("The log has more than %(n)s MB: pack it by gzip.") % {"n": MOST_TRACE_BYTES // 1024**2})
    jobs = _JobCount()
    for piece in [data] if packing_of(data[:4]) != "gzip" else _unpacked(data):
        if piece:
            jobs.add(piece)
            yield piece
    if jobs.n < 1:
        raise _wrong(_("has no jobs"))


def _unpacked(data: bytes) -> Iterator[bytes]:
    unpacker = Unpacker("gzip", Bounds(n_bytes=MOST_UNPACKED_BYTES))
    try:
        yield from chain(unpacker.feed(data), unpacker.finish())
    except Expands:
        most = MOST_UNPACKED_BYTES // 1024**2
        raise TooLarge(_("The log has more than %(n)s MB when it is unpacked: cut it.") % {"n": most}) from None
    except Damaged as error:
        place = {"byte": error.position, "why": error.why}
        raise _wrong(_("is packed, and damaged at byte %(byte)s (%(why)s)") % place) from None


def _rows(text: bytes, done: Callable[[], None]) -> F8:
    """The used fields of each job, (n, 7), part by part: numpy reads fast, and stops other threads meanwhile."""
    parts, n_lines = [], 0
    for part in _parts(text):
        parts.append(_rows_of(part, n_lines))
        n_lines += part.count(b"\n")
        done()
    return np.concatenate(parts)


def _parts(text: bytes) -> Iterator[bytes]:
    """Whole lines, of about _PART_BYTES."""
    start = 0
    while start < len(text):
        end = text.find(b"\n", start + _PART_BYTES) + 1 or len(text)
        yield text[start:end]
        start = end


def _rows_of(part: bytes, n_lines: int) -> F8:
    """n_lines: before this part."""
    if next(_lines(part), None) is None:
        return np.zeros((0, len(_FIELDS)))
    try:
        lines = io.TextIOWrapper(io.BytesIO(part), encoding="ascii", errors="replace")
        rows = np.loadtxt(lines, comments=";", usecols=_FIELDS, dtype=np.float64, ndmin=2)
    except ValueError:
        raise _first_wrong_line(part, n_lines) from None
    is_finite = bool(np.isfinite(rows).all()) and np.abs(rows).max(initial=0.0) <= _LARGEST
    if not is_finite or (rows[:, _WHOLE] % 1).any():
        raise _first_wrong_line(part, n_lines)
    return rows


def _first_wrong_line(part: bytes, n_lines: int) -> Invalid:
    for number, line in _lines(part):
        fields, place = line.split(), {"n": n_lines + number}
        try:
            values = [float(fields[i]) for i in _FIELDS]
        except (ValueError, IndexError):
            return _wrong(_("has a wrong line %(n)s: a job in Standard Workload Format is 18 numbers") % place)
        if not all(abs(value) <= _LARGEST for value in values):
            return _wrong(_("has a wrong line %(n)s: a number isn’t finite or too large") % place)
        if any(values[i] % 1 for i in _WHOLE):
            return _wrong(_("has a wrong line %(n)s: processors, user and group are whole numbers") % place)
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
    """Store a log for experiments on this policy, and enqueue its reading.

    An equal one that waits or is read is returned; one that was refused is read again. Raises as `policy_to_manage` and
    `count_log`, and Conflict (`too_many_traces`) beyond MOST_TRACES.
    """
    policy = policy_to_manage(slug=policy_slug, at=at, actor=actor)
    try:
        cleaned = clean_text(name, LONGEST_TRACE_NAME)
    except ValueError as error:
        raise Invalid(f"name {error}.", fields=[FieldProblem("name", str(error))]) from None
    text_digest = count_log(data)
    with transaction.atomic():
        lock_traces(policy)
        trace = _traces(policy).filter(text_digest=text_digest).first()
        if trace is None:
            if UploadedTrace.objects.filter(policy=policy).count() >= MOST_TRACES:
                message = _("The policy has %(n)s logs: remove one.") % {"n": MOST_TRACES}
                raise Conflict(message, code="too_many_traces")
            trace = UploadedTrace(policy=policy, text_digest=text_digest)
        elif state_of(trace).state != "refused":
            return trace
        trace.name = cleaned or "log.swf"
        trace.state, trace.data = UploadedTrace.State.WAITING, data
        trace.problem_code = trace.problem = ""
        trace.owner, trace.owner_name, trace.created_at = actor.user, actor.name, at
        trace.save()
        trace.run = enqueue_run(
            kind=KIND,
            subject=f"trace:{trace.pk}",
            arguments={"policy": policy.slug, "trace": trace.pk},
            owner=actor.user,
            at=at,
            max_attempts=_ATTEMPTS,
        )
        trace.save(update_fields=["run"])
        _record(trace, "policy.trace_uploaded", at=at, actor=actor)
    return trace


def lock_traces(policy: Policy) -> None:
    """Until the end of the transaction nobody else uploads, reads or removes a log of this policy; before any row of
    a log or a run is locked.
    """
    Policy.all_objects.select_for_update(no_key=True).get(pk=policy.pk)


def _traces(policy: Policy) -> QuerySet[UploadedTrace]:
    return UploadedTrace.objects.filter(policy=policy).select_related("policy", "run").defer("data")


class LogState(NamedTuple):
    """State of a log. problem: why it was refused, with its code."""

    state: TraceState
    problem_code: str = ""
    problem: str = ""


def state_of(trace: UploadedTrace) -> LogState:
    """One whose run ended without a word about the log counts as refused."""
    if trace.state == UploadedTrace.State.READ:
        return LogState("read")
    if trace.state == UploadedTrace.State.REFUSED:
        return LogState("refused", trace.problem_code, trace.problem)
    run = trace.run
    if run is not None and run.state in (Run.State.QUEUED, Run.State.RUNNING):
        return LogState("waiting")
    code = "cancelled" if run is None or run.state == Run.State.CANCELLED else run.error_code
    why = "" if run is None else run.error
    return LogState("refused", code, f"{_('It was not read to its end: upload it again.')} {why}".rstrip())


def refuse_unread(trace: UploadedTrace) -> None:
    """Raises Conflict (`log_waiting`) and Invalid (`log_refused`) for a log of which no experiment can be made."""
    found = state_of(trace)
    if found.state == "waiting":
        message = _("names a log that is not read yet: wait until it is read")
        problem = FieldProblem("workload.trace", message)
        raise Conflict(f"workload.trace {message}.", code="log_waiting", fields=[problem])
    if found.state == "refused":
        message = _("names a log that was refused: correct it and upload it again. %(why)s") % {"why": found.problem}
        problem = FieldProblem("workload.trace", message.rstrip("."))
        raise Invalid(f"workload.trace {message}", code="log_refused", fields=[problem])


def summary_of(jobs: TraceJobs, left_out: Mapping[str, tuple[int, float]]) -> dict[str, Any]:
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
    """Delete a log, and cancel its reading. Experiments that were prepared have its jobs in their own inputs."""
    policy = policy_to_manage(slug=policy_slug, at=at, actor=actor)
    lock_traces(policy)
    trace = trace_of(policy, trace_id)
    if trace.run_id is not None:
        cancel_run(run_id=trace.run_id, at=at, actor=SYSTEM)
    _record(trace, "policy.trace_removed", at=at, actor=actor)
    trace.delete()


def list_traces(*, policy_slug: str, at: datetime, actor: Actor) -> list[TraceRow]:
    """The logs of a policy, newest first."""
    policy = policy_to_read(slug=policy_slug, at=at, actor=actor)
    return [trace_row(policy, row, at) for row in _traces(policy).order_by("-pk")]


def trace_row(policy: Policy, row: UploadedTrace, at: datetime) -> TraceRow:
    found = state_of(row)
    summary: dict[str, Any] = row.summary if found.state == "read" else {}
    return TraceRow(
        id=row.pk,
        policy=policy.slug,
        name=row.name,
        state=found.state,
        problem_code=found.problem_code,
        problem=found.problem,
        waiting=waiting_of(row.run, at=at) if found.state == "waiting" else None,
        n_jobs=summary.get("n_jobs"),
        hours=summary.get("hours"),
        n_users=summary.get("n_users"),
        most_cpus=summary.get("most_cpus"),
        left_out=left_out_of(summary["left_out"]) if summary else None,
        digest=row.digest or None,
        owner=row.owner_name,
        created_at=row.created_at,
    )


def trace_of(policy: Policy, trace_id: int) -> UploadedTrace:
    """Raises NotFound."""
    trace = _traces(policy).filter(pk=trace_id).first() if 0 < trace_id < 2**63 else None
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
        details={"trace": trace.pk, "digest": trace.text_digest or trace.digest},
    )
