"""Adapter for HTCondor by condor_q, condor_userprio and condor_config_val, as measured with 23.9.

A value is the priority factor of a submitter (an accounting group and user), not of a job: all of its jobs have it.
condor_userprio reports success also for a change that the negotiator denied, so every change is verified by a new
listing. A reset gives each submitter the factor that it had before (`former_values`).
"""

import json
import re
from typing import Any, Dict, List, Optional, Sequence, Tuple

from agent import names
from agent.adapters import Adapter, Config
from agent.commands import TimedOut, first_line
from agent.names import shown
from agent.queue_state import ANY_GPU, Gpus, QueueState, RunningJob
from agent.records import Asked, Finding, Job, Problem, Queue, Size, Unreadable
from agent.sending import Sent, refusal_of, send_all
from agent.shares import ShareLine, Shares

UNIT = 1_000_000  # HTCondor stores six decimals of a factor
NO_GROUP = "none"  # HTCondor's <none>: jobs without an accounting group
MOST_SUBMITTERS = 500  # changed in a pass: each is a command
MEASURED = re.compile(r"\b23\.9\.\d+")
# With it, a thousand cores raise a real priority by 0.02 in a year: it stays at its floor.
LONG_HALF_LIFE = "1000000000000"
LEAST_HALF_LIFE_S = 1e11
_FLOOR = 0.5  # of real priorities
_USED = 1.01  # times the floor
_ATTRIBUTES = (
    *("ClusterId", "ProcId", "Owner", "User", "AcctGroup", "AcctGroupUser", "AccountingGroup"),
    *("JobStatus", "QDate", "RequestCpus", "RequestGPUs", "JobCurrentStartDate", "AllowedJobDuration"),
)
_LISTED = ["Name", "PriorityFactor", "Priority", "IsAccountingGroup", "WeightedAccumulatedUsage"]
_USERPRIO = ["condor_userprio", "-negotiator", "-allusers", "-af:t", *_LISTED]
_IDLE, _HELD = 1, 5
_ON_A_SLOT = (2, 6, 7)  # running, transferring its output, suspended
_REASONS = {_IDLE: "Idle", _HELD: "Held"}
_SETTING = re.compile(r"([A-Za-z_][\w.]*) = (.*)", re.ASCII)
_DENIED = ("ermission denied", "not authorized", "AUTHENTICATE", "DENIED")
_NICE_USER = "nice-user"


class Submitter:
    """A row of condor_userprio. factor: as printed; real: the real user priority, without the factor."""

    __slots__ = ("effective", "factor", "used_s")

    def __init__(self, factor: str, effective: float, used_s: float) -> None:
        self.factor = factor
        self.effective = effective
        self.used_s = used_s

    @property
    def real(self) -> float:
        return self.effective / float(self.factor)


class HTCondor(Adapter):
    def names_of(self, asked: Asked) -> Dict[str, str]:
        user, group, _partition = asked
        return {name: value for name, value in (("user", user), ("group", group)) if value}

    def read_queue(self, knob: str, most_value: int) -> Queue:
        listing = self.commands.read(["condor_q", "-allusers", "-json", "-attributes", ",".join(_ATTRIBUTES)])
        return parse_queue(listing, self._submitters(), self._defaults())

    def _submitters(self) -> Dict[str, Submitter]:
        return parse_userprio(self.commands.read(_USERPRIO))

    def _defaults(self) -> Config:
        return parse_config(self.commands.read(["condor_config_val", "-dump"]))

    def read_partitions(self) -> List[str]:
        """Accounting groups, with a quota or with a submitter, as a job belongs to those of its name; and `none`."""
        config = parse_config(self.commands.read(["condor_config_val", "-dump", "GROUP_NAMES"]))
        groups = {NO_GROUP, *_names_in(config.get("GROUP_NAMES", ""))}
        for submitter in self._submitters():
            groups.update(_groups_of(submitter.partition("@")[0].rpartition(".")[0]))
        return sorted(groups - {""})

    def read_config(self) -> Config:
        version = self.commands.read(["condor_version"])
        config = parse_config(self.commands.read(["condor_config_val", "-dump"]))
        if "PRIORITY_HALFLIFE" not in config:
            raise Unreadable("condor_config_val -dump prints no PRIORITY_HALFLIFE.")
        config["version"] = version.partition("\n")[0].strip()
        return config

    def read_values(self) -> Optional[List[Dict[str, object]]]:
        return None

    def version(self, config: Config) -> str:
        return shown(config.get("version", "").strip("$ "))

    def check(self, knob: str, config: Config) -> List[Finding]:
        return [*check_config(config), check_real(self._submitters()), self._check_right()]

    def _check_right(self) -> Finding:
        output = self.commands.run(["condor_ping", "-quiet", "-type", "NEGOTIATOR", "ADMINISTRATOR"])
        if output.status == 0:
            return Finding("operator_right", "ok", "The agent may change factors at the negotiator.", "")
        text = f"The agent has no right ADMINISTRATOR at the negotiator. {first_line(output) or ''}".rstrip()
        return Finding("operator_right", "error", text, "ALLOW_ADMINISTRATOR = $(ALLOW_ADMINISTRATOR), AGENT@DOMAIN")

    def apply(self, knob: str, due: Sequence[Tuple[str, int]]) -> Sent:
        """At most MOST_SUBMITTERS; the others stay for the next pass."""
        sent = send_all(due[:MOST_SUBMITTERS], lambda value, some: self._set_all(factor_text(value), some))
        return self._verified(sent, {submitter: factor_text(value) for submitter, value in due})

    def value_of(self, printed: str) -> int:
        return value_of_factor(printed)

    def restore_values(self, knob: str, former: Dict[str, str]) -> Sent:
        """former: the factor of each submitter, as it was printed."""
        sent = Sent([], [], {})
        for submitter, factor in former.items():
            problem = self._set_all(factor, [submitter])
            if problem is None:
                sent.done.append(submitter)
                continue
            n, detail = sent.problems.get(problem.code, (0, problem.detail))
            sent.problems[problem.code] = (n + 1, detail)
            if problem.code in ("denied", "timeout"):
                break  # the next one would fail in the same way
        return self._verified(sent, former)

    def reset_values(self, knob: str, jobs: Sequence[str]) -> Sent:
        raise Unreadable("Factors of HTCondor are restored, not cleared.")

    def to_reset(self, knob: str, queue: Queue, ours: Sequence[str]) -> List[str]:
        return [submitter for submitter in ours if submitter in queue.known]

    def read_shares(self) -> Optional[Shares]:
        return None

    def set_share(self, cluster: str, line: ShareLine, in_partitions: bool) -> Optional[Problem]:
        return Problem("refused", "HTCondor's groups have quotas, which its configuration sets.")

    def _set_all(self, factor: str, submitters: Sequence[str]) -> Optional[Problem]:
        for submitter in submitters:
            if not names.SUBMITTER.fullmatch(submitter):
                raise ValueError(f"{submitter!r} is no submitter")
            try:
                output = self.commands.run(["condor_userprio", "-setfactor", submitter, factor])
            except TimedOut as error:
                return Problem("timeout", str(error))
            except Unreadable as error:
                return Problem("unreadable", str(error))
            if output.status != 0:
                message = first_line(output) or f"condor_userprio ended with status {output.status}."
                return refusal_of(message, (), _DENIED)
        return None

    def _verified(self, sent: Sent, wanted: Dict[str, str]) -> Sent:
        if not sent.done:
            return sent
        there = self._submitters()
        wrong = [name for name in sent.done if name not in there or not is_same(there[name].factor, wanted[name])]
        if not wrong:
            return sent
        now = there[wrong[0]].factor if wrong[0] in there else "nothing"
        detail = f"condor_userprio reports success, and {shown(wrong[0])} still has {now}: has the agent the right?"
        n, first = sent.problems.get("denied", (0, detail))
        done = [name for name in sent.done if name not in set(wrong)]
        failed = [*sent.failed, *wrong]
        return sent._replace(done=done, failed=failed, problems={**sent.problems, "denied": (n + len(wrong), first)})


def factor_text(value: int) -> str:
    """The factor of a value, which counts millionths."""
    return f"{value // UNIT:d}.{value % UNIT:06d}"


def value_of_factor(factor: str) -> int:
    return round(float(factor) * UNIT)


def is_same(one: str, other: str) -> bool:
    return value_of_factor(one) == value_of_factor(other)


def parse_userprio(text: str) -> Dict[str, Submitter]:
    """Submitters by name, without groups. Raises: Unreadable for a row of another shape."""
    rows: Dict[str, Submitter] = {}
    for line in text.splitlines():
        cells = line.split("\t")
        if not line.strip():
            continue
        if len(cells) != len(_LISTED):
            raise Unreadable(f"A row of condor_userprio has {len(cells)} columns: {shown(line)}")
        name, factor, effective, is_group, used = cells
        if is_group == "true" or not names.SUBMITTER.fullmatch(name):
            continue
        try:
            row = Submitter(factor, float(effective), float(used))
            if not (1 <= float(factor) < 1e15 and 0 <= row.effective < 1e30):
                raise ValueError(factor)
        except ValueError:
            raise Unreadable(f"condor_userprio lists no numbers for {shown(name)}: {shown(line)}")
        rows[name] = row
    return rows


def parse_queue(text: str, submitters: Dict[str, Submitter], defaults: Config) -> Queue:
    """Jobs that wait. A submitter without a row gets the factor that HTCondor will give it.

    Raises: Unreadable unless it is a whole JSON array, or empty.
    """
    try:
        ads = json.loads(text) if text.strip() else []
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"The JSON of condor_q can't be read: {error}.")
    if not isinstance(ads, list):
        raise Unreadable("The JSON of condor_q is no list.")
    jobs: List[Job] = []
    known = set(submitters)
    listed = {name: row.factor for name, row in submitters.items()}
    running: List[RunningJob] = []
    skipped: List[str] = []
    n_damaged = 0
    for ad in ads:
        job = _job(ad, submitters) if isinstance(ad, dict) else "it is no object"
        if isinstance(job, str):
            skipped.append(f"A job of condor_q: {job}")
            n_damaged += 1
            continue
        if isinstance(job, Refusal):
            skipped.append(job.reason)
            continue
        known |= {job.id, job.holder}
        if job.reason:
            factor = listed.setdefault(job.holder, default_factor(job.holder, defaults))
            jobs.append(job._replace(current=value_of_factor(factor)))
        elif ad["JobStatus"] in _ON_A_SLOT:
            running.append(_running(ad, job))
    return Queue(jobs, frozenset(known), {}, skipped, n_damaged, listed, QueueState(running, []))


def _running(ad: Dict[str, Any], job: Job) -> RunningJob:
    size = job.size or Size(None, (), None, None, None, False)
    place = (job.user, job.group, ",".join(job.partitions), "", job.cpus, None, size.gpus, size.limit_s)
    return RunningJob(job.id, "", *place, job.submit_at, _instant(ad.get("JobCurrentStartDate")))


def _size(ad: Dict[str, Any]) -> Size:
    """Requests that are expressions are unknown."""
    n_gpus, limit_s = ad.get("RequestGPUs"), ad.get("AllowedJobDuration")
    gpus: Gpus = ((ANY_GPU, n_gpus),) if type(n_gpus) is int and 0 < n_gpus < 10**6 else ()
    is_limited = type(limit_s) is int and 0 < limit_s < 10**10
    return Size(None, gpus, float(limit_s) if is_limited and limit_s else None, None, None, False)


def _instant(value: Any) -> Optional[float]:
    return float(value) if type(value) is int and 0 < value < 10**11 else None


class Refusal:
    """Why a job isn't carried; its row is as it should be."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


def _job(ad: Dict[str, Any], submitters: Dict[str, Submitter]) -> Any:
    """A Job, its Refusal, or the damage of its row as text."""
    numbers = {name: ad.get(name) for name in ("ClusterId", "ProcId", "JobStatus")}
    if not all(type(value) is int and 0 <= value < 10**10 for value in numbers.values()):
        return "ClusterId, ProcId or JobStatus are no numbers"
    id = "{ClusterId}.{ProcId}".format(**numbers)
    owner, (local, _, domain) = _text(ad, "Owner"), _text(ad, "User").partition("@")
    group, user = _text(ad, "AcctGroup"), _text(ad, "AcctGroupUser") or owner or local
    submitter = f"{_text(ad, 'AccountingGroup') or owner or local}@{domain}"
    if not group and _text(ad, "AccountingGroup"):
        group, _, user = _text(ad, "AccountingGroup").rpartition(".")
    if not names.USER.fullmatch(user) or not names.SUBMITTER.fullmatch(submitter):
        return Refusal(f"Job {id}: user {shown(user)!r}, submitter {shown(submitter)!r}")
    if group and not names.GROUP.fullmatch(group):
        return Refusal(f"Job {id}: group {shown(group)!r}")
    cpus = ad.get("RequestCpus")
    row = submitters.get(submitter)
    return Job(
        id=id,
        array_task=None,
        user=user,
        group=group,
        partitions=tuple(_groups_of(group)),
        qos="",
        cpus=cpus if type(cpus) is int and 0 <= cpus < 10**7 else 1,
        submit_at=_instant(ad.get("QDate")),
        is_held=numbers["JobStatus"] == _HELD,
        reason=_REASONS.get(int(ad["JobStatus"]), ""),
        priority=-row.effective if row is not None else 0.0,
        terms=None,
        current=None,
        submitter=submitter,
        size=_size(ad),
    )


def _groups_of(group: str) -> List[str]:
    """The group, and those above it."""
    parts = group.split(".")
    return [".".join(parts[:n]) for n in range(len(parts), 0, -1)] if group else [NO_GROUP]


def default_factor(submitter: str, config: Config) -> str:
    """The factor that HTCondor gives a submitter at first sight (its Accountant::GetPriorityFactor)."""
    name, _, domain = submitter.rpartition("@")
    own = {key.lower(): value for key, value in config.items()}
    of_group = own.get(f"group_prio_factor_{_assigned_group(name, own.get('group_names', ''))}", "")
    local = own.get("accountant_local_domain", "")
    if name.startswith(_NICE_USER):
        return _factor(own.get("nice_user_prio_factor", ""))
    if of_group:
        return _factor(of_group)
    if local and local != domain:
        return _factor(own.get("remote_prio_factor", ""))
    return _factor(own.get("default_prio_factor", ""))


def _assigned_group(name: str, group_names: str) -> str:
    """The lowest group of GROUP_NAMES on a submitter's way down, in small letters; "" for none. It alone counts: a
    group below one that isn't named is no group, and groups above it give nothing.
    """
    named = set(_names_in(group_names.lower()))
    assigned = ""
    for group in reversed(_groups_of(name.rpartition(".")[0].lower())):
        if group not in named:
            break
        assigned = group
    return assigned


def _names_in(text: str) -> List[str]:
    return re.split(r"[\s,]+", text)


def _factor(text: str) -> str:
    try:
        return text if 1 <= float(text) < 1e15 else "1000"
    except ValueError:
        return "1000"


def _text(ad: Dict[str, Any], name: str) -> str:
    value = ad.get(name)
    return value if isinstance(value, str) else ""


def parse_config(text: str) -> Config:
    config: Config = {}
    for line in text.splitlines():
        match = _SETTING.fullmatch(line)
        if match:
            config[match.group(1)] = match.group(2).strip()
    return config


def check_config(config: Config) -> List[Finding]:
    return [_check_half_life(config), _check_groups(config), _check_version(config)]


def _check_half_life(config: Config) -> Finding:
    """HTCondor multiplies our factor by its own usage, which then counts twice."""
    text = config.get("PRIORITY_HALFLIFE", "")
    try:
        is_long = float(text) >= LEAST_HALF_LIFE_S
    except ValueError:
        is_long = False
    severity = "ok" if is_long else "error"
    return Finding(
        "double_counting", severity, f"PRIORITY_HALFLIFE={shown(text)}", f"PRIORITY_HALFLIFE={LONG_HALF_LIFE}"
    )


def _check_groups(config: Config) -> Finding:
    """Groups with quotas are served by what they use of them; our order holds within each."""
    named = config.get("GROUP_NAMES", "")
    if not named:
        return Finding("group_quotas", "ok", "No accounting group has a quota.", "")
    text = f"Groups with quotas: {shown(named)}. HTCondor orders groups by quota, and our order holds within each."
    return Finding("group_quotas", "warning", text, "")


def _check_version(config: Config) -> Finding:
    version = config.get("version", "")
    is_known = MEASURED.search(version) is not None
    remedy = "" if is_known else "Stay in shadow mode until the queue shows the values."
    return Finding("version", "ok" if is_known else "warning", shown(version.strip("$ ")), remedy)


def check_real(submitters: Dict[str, Submitter]) -> Finding:
    """With the long half-life, what HTCondor counted before it never fades."""
    above = {name: row.real for name, row in submitters.items() if row.real > _FLOOR * _USED}
    if not above:
        return Finding("real_priority", "ok", "Every real user priority is at its floor, 0.5.", "")
    name = max(above, key=lambda each: (above[each], each))
    text = f"Submitters with a real priority above 0.5: {len(above)}, first {shown(name)} with {above[name]:.2f}."
    return Finding("real_priority", "error", text, f"condor_userprio -setprio {shown(name, 200)} 0.5")
