"""Parse HTCondor's job ads: `condor_history` and `condor_q` in each form that they print, and the history file.

Usage is RemoteWallClockTime: the time in which a job held its slots. It has every run (CommittedTime leaves out those
that were evicted, though they kept others from the slots) and time in suspension, in which the slots stay claimed, as
HTCondor's own accountant charges it. An ad has the times of its last run, and the sum of all: a job that ran before has
a second record for the runs before the last. Source: HTCondor's manual, "Job ClassAd Attributes".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, BinaryIO, NamedTuple

from django.utils.translation import gettext_noop

from apps.core.resource_kinds import GPU, BadKind, Kinds, kind_of_device, make_kinds
from apps.usage.parsers.base import LAST_US, FieldNote, Parsed, Reading, RecordRow
from apps.usage.parsers.field_values import BadRecord, checked, note_ignored
from apps.usage.parsers.htcondor_ads import PROVISIONED, Ad, Expression, form_of, parse_ads
from apps.usage.parsers.json_lines import number_in
from apps.usage.parsers.lines import Notes

EARLIER_RUNS, NO_EARLIER_RUNS = "earlier_runs_joined", "earlier_runs_unknown"
NO_SLOT = "jobs_without_slots"
SUSPENDED = "suspensions_counted"
_HEAD = 4_096
_MARKS = re.compile(rb'clusterid"?\W+(?:<i>)?\d', re.IGNORECASE)
_MORE_MARKS = re.compile(rb'(?:procid|jobstatus)"?\W+(?:<i>)?\d', re.IGNORECASE)
_RUNNING, _REMOVED, _COMPLETED = (2, 6, 7), 3, 4
_STATES = range(1, 8)  # idle, running, removed, completed, held, transferring output, suspended
_SAME_S = 1.0  # times of an ad are whole seconds
# Scheduler and local universe run on the submit host; jobs of the grid universe run in another system, which has them.
_WITHOUT_SLOT = (7, 9, 12)
_PARALLEL = 11
_MOST_SHADOWS = 2**31 - 1
_COLUMNS = frozenset(("cpus", "gpus", "memory", "disk"))
_DEVICES = ("machineattrgpus_devicename0", "machineattrcudadevicename0", "gpus_devicename", "cudadevicename")
_ASKED_DEVICE = re.compile(r'DeviceName\s*==\s*"([^"]{1,200})"', re.IGNORECASE)
_LIMIT = re.compile(r"\s*+([A-Za-z][\w.]*+)\s*+(?::\s*+(\d++(?:\.\d++)?)\s*+)?", re.ASCII)


class HTCondor:
    """Job ads in every form."""

    name = "htcondor"
    label = gettext_noop("HTCondor job history (condor_history -long, -json, -jsonl, -xml)")
    extensions: tuple[str, ...] = (".jsonl", ".json", ".xml", ".ads")
    reference = "https://htcondor.readthedocs.io/en/latest/classad-attributes/job-classad-attributes.html"
    sample = (
        '{"ClusterId":4711,"ProcId":0,"GlobalJobId":"submit1.example.org#4711.0#1767225600","Owner":"ada",'
        '"AcctGroup":"physics","JobStatus":4,"QDate":1767225600,"JobCurrentStartDate":1767225660,'
        '"CompletionDate":1767229260,"EnteredCurrentStatus":1767229260,"RemoteWallClockTime":3600.0,'
        '"CpusProvisioned":8,"GPUsProvisioned":2,"MemoryProvisioned":32768,'
        '"MachineAttrGPUs_DeviceName0":"NVIDIA H100 PCIe"}\n'
    )
    fields: tuple[FieldNote, ...] = (
        FieldNote("ClusterId, ProcId, GlobalJobId", gettext_noop("job; cluster is the host that it was submitted on")),
        FieldNote("QDate, JobCurrentStartDate", gettext_noop("submit, and start of the last run")),
        FieldNote(
            "RemoteWallClockTime, LastRemoteWallClockTime",
            gettext_noop("how long it held its slots: in all runs, and in the last; else until CompletionDate"),
        ),
        FieldNote("JobStatus", gettext_noop("finished (also if removed while it ran), running, pending or withdrawn")),
        FieldNote("NumShadowStarts", gettext_noop("how often it ran: runs before the last are a record of their own")),
        FieldNote("CpusProvisioned, else RequestCpus; so GPUs and Memory", gettext_noop("cpus, gpus, mem_mb")),
        FieldNote(
            "MachineAttrGPUs_DeviceName0, else RequireGPUs",
            gettext_noop("kind of its GPUs, such as gpu:nvidia_h100"),
        ),
        FieldNote(
            "Other provisioned numbers; ConcurrencyLimits",
            gettext_noop("kinds: gres/fpga, license/matlab"),
        ),
        FieldNote("AcctGroupUser, else Owner; AcctGroup", gettext_noop("user, group: as HTCondor charges them")),
        FieldNote("AllowedJobDuration, else AllowedExecuteDuration", gettext_noop("requested_s")),
        FieldNote("x509userproxysubject, x509UserProxyFirstFQAN", gettext_noop("dn, fqan")),
    )
    needs_zone = False
    is_listing = False

    def sniff(self, head: bytes) -> bool:
        start = head[:_HEAD].removeprefix(b"\xef\xbb\xbf").lstrip()
        form = form_of(start)
        if form == "xml":
            return b"<classads" in start
        if form == "long" and not re.match(rb"[A-Za-z_][\w.]*\s*=\s|\*\*\* ", start):
            return False
        return bool(_MARKS.search(head)) and bool(_MORE_MARKS.search(head))

    def parse(self, stream: BinaryIO, reading: Reading, *, resume: Mapping[str, Any] | None = None) -> Iterator[Parsed]:
        """Parse ads; each is one job, rejected individually.

        Raises:
            Invalid: the XML isn't one of ads.
        """
        form = str((resume or {}).get("form") or form_of(stream.read(_HEAD)))
        stream.seek(0)
        for parsed in parse_ads(stream, form, _rows, resume):
            parsed.resume["form"] = form
            yield parsed


class _Runs(NamedTuple):
    """What an ad says of a job's runs. last: start and seconds of the last one, seconds None while it runs.

    earlier_s: of the runs before, all of them if last is None. number: how many those are. state: of the job.
    """

    state: str
    number: int
    last: tuple[datetime, float | None] | None
    earlier_s: float


def _rows(ad: Ad, notes: Notes) -> list[RecordRow]:
    """The records of an ad: one for what the job is or its last run, one for the runs before that held slots."""
    if "epochwritedate" in ad:
        raise BadRecord("epoch_ad", "It is one run of a job: use condor_history without -epochs, which has all runs.")
    cluster_id, proc_id, status = (_needed(name, ad) for name in ("ClusterId", "ProcId", "JobStatus"))
    submit_at = _instant("qdate", ad)
    if submit_at is None:
        raise BadRecord("missing_field", "QDate is missing, or no number.")
    if status not in _STATES:
        raise BadRecord("bad_state", f"JobStatus is {status:g}, not from 1 to 7.")
    if number_in(ad.get("jobuniverse")) in _WITHOUT_SLOT:
        notes[NO_SLOT] += 1
        return []
    runs = _runs(ad, int(status), notes)
    n_hosts = _hosts(ad)
    cpus = _amount("cpus", ad)
    if cpus is None and (runs.last is not None or runs.earlier_s > 0):
        raise BadRecord("no_processors", "Neither CpusProvisioned nor RequestCpus is a number.")
    gpus = (_amount("gpus", ad) or 0.0) * n_hosts
    group, user = _who(ad)
    job = RecordRow(
        job=f"{cluster_id:.0f}.{proc_id:.0f}",
        cluster=_text(ad, "globaljobid").partition("#")[0],
        user=user,
        group=group,
        dn=_text(ad, "x509userproxysubject"),
        fqan=_text(ad, "x509userproxyfirstfqan"),
        state=runs.state,
        submit_at=submit_at,
        revision=runs.number,
        cpus=(cpus or 0.0) * n_hosts,
        gpus=gpus,
        nodes=float(n_hosts) if n_hosts > 1 else 0.0,
        mem_mb=(_amount("memory", ad) or 0.0) * n_hosts,
        requested_s=_requested_s(ad),
        kinds=_kinds(ad, gpus, n_hosts, notes),
    )
    rows = [checked(_with_last(job, runs), notes)]
    if runs.earlier_s > 0:
        rows.append(checked(_of_earlier(job, submit_at, runs, ad)))
        notes[EARLIER_RUNS] += 1
    if (number_in(ad.get("cumulativesuspensiontime")) or 0.0) > 0:
        notes[SUSPENDED] += 1
    return rows


def _with_last(job: RecordRow, runs: _Runs) -> RecordRow:
    if runs.last is None:
        return job
    start_at, seconds = runs.last
    return job._replace(start_at=start_at, end_at=None if seconds is None else _after(start_at, seconds))


def _of_earlier(job: RecordRow, submit_at: datetime, runs: _Runs, ad: Ad) -> RecordRow:
    """The runs before the last as one: from the first start, but not beyond the last one's."""
    first_at, last_at = _instant("jobstartdate", ad), _instant("jobcurrentstartdate", ad)
    start_at = first_at or last_at or submit_at
    if runs.last is not None:
        latest_at = runs.last[0]
        start_at = min(start_at, _after(latest_at, -runs.earlier_s))
    return job._replace(
        state="finished", restart=1, start_at=start_at, end_at=_after(start_at, runs.earlier_s), requested_s=None
    )


def _runs(ad: Ad, status: int, notes: Notes) -> _Runs:
    """The runs by RemoteWallClockTime where it is there, else the last run by its times."""
    start_at = _instant("jobcurrentstartdate", ad) or _instant("shadowbday", ad) or _instant("jobstartdate", ad)
    end_at = _instant("completiondate", ad) or _instant("enteredcurrentstatus", ad)
    total_s = number_in(ad.get("remotewallclocktime")) or None
    if total_s is not None and total_s < 0:
        raise BadRecord("negative_number", f"RemoteWallClockTime is {total_s:g}, below zero.")
    n_runs = next((n for n in (number_in(ad.get("numshadowstarts")), number_in(ad.get("numjobstarts"))) if n), 0.0)
    number = int(min(max(n_runs, 0.0), _MOST_SHADOWS))
    before = max(number - 1, 0)
    if status in _RUNNING:
        last = None if start_at is None else (start_at, None)
        return _Runs("running", before, last, total_s or 0.0)
    if status not in (_REMOVED, _COMPLETED):
        return _Runs("pending", number, None, total_s or 0.0)
    last_status = number_in(ad.get("lastjobstatus"))
    ran_until_then = status == _COMPLETED or last_status is None or int(last_status) in _RUNNING
    if start_at is None or not ran_until_then:
        return _Runs("withdrawn", number, None, total_s or 0.0)
    last_s = _last_s(ad, total_s, None if end_at is None else (end_at - start_at).total_seconds(), before)
    if last_s is None:
        raise BadRecord("missing_field", "Neither RemoteWallClockTime nor the time of its end is a number.")
    if total_s is None and before:
        notes[NO_EARLIER_RUNS] += 1
    earlier_s = (total_s or 0.0) - last_s
    return _Runs("finished", before, (start_at, last_s), earlier_s if earlier_s >= _SAME_S else 0.0)


def _last_s(ad: Ad, total_s: float | None, by_times_s: float | None, n_before: int) -> float | None:
    """Seconds of the last run, never more than those of all."""
    last_s = number_in(ad.get("lastremotewallclocktime")) or None
    if last_s is None and total_s is not None and not n_before and ad.get("numshadowstarts") is not None:
        return total_s
    last_s = by_times_s if last_s is None else last_s
    if last_s is None or total_s is None:
        return total_s if last_s is None else last_s
    return min(last_s, total_s)


def _after(at: datetime, seconds: float) -> datetime:
    try:
        return at + timedelta(seconds=seconds)
    except OverflowError as error:
        raise BadRecord("absurd_time", f"{seconds:g} s from {at} is not between 1970 and 2200.") from error


def _who(ad: Ad) -> tuple[str, str]:
    """Group and user as HTCondor charges them; AccountingGroup is both, such as group_physics.ada."""
    group, user = _text(ad, "acctgroup"), _text(ad, "acctgroupuser")
    if not group and not user:
        group, _, user = _text(ad, "accountinggroup").partition("@")[0].rpartition(".")
    return group, user or _text(ad, "owner") or _text(ad, "user").partition("@")[0]


def _hosts(ad: Ad) -> int:
    """Slots of a job of the parallel universe; its ad has the resources of one."""
    hosts = number_in(ad.get("maxhosts"))
    is_parallel = number_in(ad.get("jobuniverse")) == _PARALLEL
    return int(hosts) if is_parallel and hosts is not None and 1 <= hosts <= _MOST_SHADOWS else 1


def _requested_s(ad: Ad) -> float | None:
    allowed = (number_in(ad.get(name)) for name in ("allowedjobduration", "allowedexecuteduration"))
    return next((seconds for seconds in allowed if seconds is not None and seconds > 0), None)


def _kinds(ad: Ad, gpus: float, n_hosts: int, notes: Notes) -> Kinds:
    """GPUs by the name of the device, other provisioned resources, and concurrency limits: mostly licences."""
    amounts = []
    device = next((_text(ad, name) for name in _DEVICES if _text(ad, name)), "")
    asked = _ASKED_DEVICE.search(_text(ad, "requiregpus", is_expression=True))
    device = device or (asked[1] if asked else "")
    if device and gpus:
        try:
            amounts.append((kind_of_device(GPU, device), gpus))
        except BadKind:
            note_ignored(notes, "DeviceName")
    for name, value in ad.items():
        own, amount = name.removesuffix(PROVISIONED), number_in(value)
        if name.endswith(PROVISIONED) and own not in _COLUMNS and amount is not None:
            amounts.append((f"gres/{own}", amount * n_hosts))
    for part in _text(ad, "concurrencylimits").split(","):
        if limit := _LIMIT.fullmatch(part):
            amounts.append((f"license/{limit[1]}", float(limit[2] or 1)))
    kinds, bad = make_kinds(amounts)
    for name in bad:
        note_ignored(notes, name)
    return kinds


def _amount(name: str, ad: Ad) -> float | None:
    """What the job got of a resource, else what it asked for; expressions are no numbers."""
    provisioned = number_in(ad.get(name + PROVISIONED))
    return number_in(ad.get("request" + name)) if provisioned is None else provisioned


def _needed(name: str, ad: Ad) -> float:
    value = number_in(ad.get(name.lower()))
    if value is None:
        raise BadRecord("missing_field", f"{name} is missing, or no number.")
    return value


def _text(ad: Ad, name: str, *, is_expression: bool = False) -> str:
    value = ad.get(name)
    if is_expression and isinstance(value, Expression):
        return value.text
    return value if isinstance(value, str) else ""


def _instant(name: str, ad: Ad) -> datetime | None:
    """Seconds since 1970; 0 and -1 are none."""
    seconds = number_in(ad.get(name))
    if not seconds or seconds == -1:
        return None
    if not 0 < seconds * 1e6 <= LAST_US:
        raise BadRecord("absurd_time", f"{name} ({seconds:g}) is not between 1970 and 2200.")
    return datetime.fromtimestamp(seconds, UTC)
