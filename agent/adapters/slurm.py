"""Adapter for Slurm by squeue, sprio, scontrol, sshare and sacctmgr, as measured with 22.05.8.

Text with chosen columns instead of `squeue --json`: the columns are the same in every release, it needs no plug-in, and
50,000 jobs are 5 MB instead of 150. Free text (job names) isn't requested, so that `|` only separates columns.
"""

import os
import pwd
import re
import time
from typing import Dict, Iterable, List, Optional, Sequence, Tuple

from agent import names, site_commands
from agent.adapters import Adapter, Config
from agent.adapters.slurm_numbers import count, instant, integer, number_or_none
from agent.adapters.slurm_state import NODE_COLUMNS, Times, parse_partitions, parse_reservations
from agent.commands import Output, TimedOut, first_line
from agent.limits import SLURM_LIMIT_COLUMNS, Accounts, Jobs, Settings, limit_argv, parse_accounts, parse_jobs
from agent.names import shown
from agent.queue_state import EndedJob, QueueState, RunningJob
from agent.records import Asked, Finding, Job, ListedPriority, Problem, Queue, Unreadable
from agent.sending import Sent, refusal_of, send_all
from agent.shares import SLURM_COLUMNS, ShareLine, Shares, parse_associations, slurm_argv

QUEUE_COLUMNS = "%A|%F|%K|%u|%a|%P|%q|%C|%V|%T|%Q|%y|%r"
# The last is since 24.05: older releases print nothing for it, and a line of complaint beside the listing.
PRIORITY_COLUMNS = "%i|%Y|%S|%A|%B|%F|%J|%P|%Q|%N|%r|%n"
# As QUEUE_COLUMNS, with more before the reason; without a width, so that nothing is cut or padded.
STATE_COLUMNS = ":0|,".join((
    *("JobID", "ArrayJobID", "ArrayTaskID", "UserName", "Account", "Partition", "QOS", "NumCPUs", "SubmitTime"),
    *("State", "PriorityLong", "Nice", "TimeLimit", "StartTime", "EndTime", "NumNodes", "tres-alloc", "EligibleTime"),
    *("Dependency", "Reason:0"),
))  # fmt: skip
LISTS_STATE = (22, 5)  # the first release whose columns of this kind are measured
_N_BASE, _N_MORE = 12, 7  # columns before those of STATE_COLUMNS alone, and these
_Row = Tuple[str, List[str]]
_UNFINISHED = "PENDING,RUNNING,SUSPENDED"
_ENDED = (
    *("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE"),
    "OUT_OF_MEMORY",
)
_CANCELLED = ("CANCELLED", "DEADLINE")
_MAY_NOT_HAVE_RUN = (*_CANCELLED, "FAILED", "BOOT_FAIL")  # such a job has its end as start, too
_SLACK_S = 60.0  # by which clocks may differ
# Flags hide the base of a job that runs. A job that waits for a new run may print COMPLETING or REQUEUED.
_NOT_WAITING = ("RUNNING", "SUSPENDED", "CONFIGURING", "RESIZING", "STOPPED", "SIGNALING", "STAGE_OUT")
_TERMS = ("age", "assoc", "fairshare", "jobsize", "partition", "qos", "nice")
_KEYS = {"sitefactor": "sitefactor", "nice": "nice", "priority": "priority"}
MEASURED = ((20, 11), (26, 5))  # supported releases
MOST_VALUES = 50_000
MOST_NAME = 128  # characters of a partition or QOS
_NO_ACCOUNT = ("", "(null)", "N/A")  # for a site without accounting
_NO_PRIORITIES = "Unable to find jobs matching"
_GONE = ("already finished", "Invalid job id", "Job/step already completing or completed")
_DENIED = ("permission denied", "Access/permission", "Permission denied", "Invalid user id", "have privilege")


class Slurm(Adapter):
    _cluster = ""

    def names_of(self, asked: Asked) -> Dict[str, str]:
        return {name: value for name, value in zip(("user", "group", "partition"), asked) if value}

    def read_queue(self, knob: str, most_value: int) -> Queue:
        argv = ["squeue", "--noheader", "--all", "--local", "--states=" + _UNFINISHED, "--format=" + QUEUE_COLUMNS]
        listing = self.commands.read(argv)
        return parse_queue(listing, parse_priorities(self._sprio()), knob)

    def read_queue_state(self, knob: str, most_value: int, config: Config) -> Queue:
        """By the same call of squeue, and one of sinfo and of scontrol. Ended jobs: those that Slurm still lists."""
        if _release(config.get("SLURM_VERSION", "")) < LISTS_STATE:
            return self.read_queue(knob, most_value)
        states = ",".join((_UNFINISHED, *_ENDED))
        argv = ["squeue", "--noheader", "--all", "--local", "--states=" + states, "--Format=" + STATE_COLUMNS]
        listing = self.commands.read(argv)
        return self._with_capacity(parse_queue_state(listing, parse_priorities(self._sprio()), knob, time.time()))

    def _with_capacity(self, queue: Queue) -> Queue:
        """What can't be read stays None: priorities need none of it."""
        state = queue.state or QueueState([], [])
        try:
            argv = ["sinfo", "--noheader", "--all", "--local", "--Node", "--Format=" + NODE_COLUMNS]
            state = state._replace(partitions=parse_partitions(self.commands.read(argv)))
            reserved = self.commands.read(["scontrol", "--oneliner", "show", "reservation"])
            state = state._replace(reservations=parse_reservations(reserved))
        except Unreadable as error:
            state = state._replace(problem=str(error))
        return queue._replace(state=state)

    def _sprio(self) -> str:
        """Pending jobs without held ones; if there are none, sprio fails with its own message."""
        output = self.commands.run(["sprio", "--noheader", "--local", "--format=" + PRIORITY_COLUMNS])
        if _NO_PRIORITIES in output.out + output.err and "|" not in output.out:
            return ""
        if output.status != 0:
            raise Unreadable(f"sprio ended with status {output.status}: {first_line(output)}")
        if output.out and not output.out.endswith("\n"):
            raise Unreadable("The output of sprio breaks off.")
        return output.out

    def read_partitions(self) -> List[str]:
        return [name for name, _tier in parse_tiers(self._partitions())]

    def _partitions(self) -> str:
        return self.commands.read(["scontrol", "--oneliner", "show", "partition"])

    def read_config(self) -> Config:
        text = self.commands.read(site_commands.CONFIG)
        config = parse_config(text)
        if "SLURM_VERSION" not in config:
            raise Unreadable("scontrol show config prints no SLURM_VERSION.")
        self._cluster = config.get("ClusterName", "")
        return config

    def read_values(self) -> Optional[List[Dict[str, object]]]:
        return parse_shares(self.commands.read(site_commands.SSHARE), self._cluster)

    def read_shares(self) -> Optional[Shares]:
        if not self._cluster:
            self.read_config()
        asked = ["show", "assoc", "cluster=" + self._cluster, "format=" + SLURM_COLUMNS]
        return parse_associations(self.commands.read(["sacctmgr", "-nP", *asked]), self._cluster)

    def set_share(self, cluster: str, line: ShareLine, in_partitions: bool) -> Optional[Problem]:
        try:
            return self._run(slurm_argv(cluster, line, in_partitions))
        except ValueError as error:
            return Problem("refused", str(error))

    def read_accounts(self, cluster: str = "") -> Optional[Accounts]:
        if not cluster and not self._cluster:
            self.read_config()
        of = cluster or self._cluster
        asked = ["show", "assoc", "wopl", "cluster=" + of, "format=" + SLURM_LIMIT_COLUMNS]
        return parse_accounts(self.commands.read(["sacctmgr", "-nP", *asked]), of)

    def read_account_jobs(self) -> Jobs:
        argv = ["squeue", "--noheader", "--all", "--local", "--states=" + _UNFINISHED, "--format=%a|%T"]
        return parse_jobs(self.commands.read(argv))

    def set_limit(self, cluster: str, account: str, settings: Settings) -> Optional[Problem]:
        try:
            return self._run(limit_argv(cluster, account, settings))
        except ValueError as error:
            return Problem("refused", str(error))

    def ends_running_jobs(self, config: Config) -> bool:
        return "safe" not in _enforced(config)

    def version(self, config: Config) -> str:
        return shown(config.get("SLURM_VERSION", ""))

    def check(self, knob: str, config: Config) -> List[Finding]:
        findings = [*check_config(knob, config), self._check_operator(config)]
        return findings if knob == "limits" else [*findings, check_tiers(parse_tiers(self._partitions()))]

    def _check_operator(self, config: Config) -> Finding:
        name = pwd.getpwuid(os.geteuid()).pw_name
        if os.geteuid() == 0 or config.get("SlurmUser", "").partition("(")[0] == name:
            return Finding("operator_right", "ok", f"The agent runs as {name}.", "")
        output = self.commands.run(["sacctmgr", "-nP", "show", "user", name, "format=user,adminlevel"])
        level = "".join(line.partition("|")[2] for line in output.out.splitlines() if line.startswith(name + "|"))
        if output.status == 0 and level in ("Operator", "Administrator"):
            return Finding("operator_right", "ok", f"The agent runs as {name}: {level}.", "")
        remedy = f"sacctmgr modify user {name} set adminlevel=Operator"
        return Finding("operator_right", "error", f"The agent runs as {name}: {shown(level) or 'None'}.", remedy)

    def apply(self, knob: str, due: Sequence[Tuple[str, int]]) -> Sent:
        return send_all(due, lambda value, jobs: self._update(f"{_KEYS[knob]}={value:d}", jobs))

    def reset_values(self, knob: str, jobs: Sequence[str]) -> Sent:
        if knob == "priority":
            return send_all([(job, 0) for job in jobs], lambda _, some: self._scontrol(["release", _list(some)]))
        return self.apply(knob, [(job, 0) for job in jobs])

    def to_reset(self, knob: str, queue: Queue, ours: Sequence[str]) -> List[str]:
        """A site factor is only set by the agent. nice is also set by users, and a held job must not be released."""
        if knob == "priority":
            held = {job.id for job in queue.jobs if job.is_held}
            pending = {job.id for job in queue.jobs}
            return [job for job in ours if job in pending and job not in held]
        jobs = [job for job in ours if job in queue.known]
        if knob == "sitefactor":
            jobs += [job.id for job in queue.jobs if job.current and job.id not in set(ours)]
        return jobs

    def _update(self, setting: str, jobs: Sequence[str]) -> Optional[Problem]:
        return self._scontrol(["update", "jobid=" + _list(jobs), setting])

    def _scontrol(self, arguments: List[str]) -> Optional[Problem]:
        return self._run(["scontrol", *arguments])

    def _run(self, argv: List[str]) -> Optional[Problem]:
        try:
            return problem_of(self.commands.run(argv))
        except TimedOut as error:
            return Problem("timeout", str(error))
        except Unreadable as error:
            return Problem("unreadable", str(error))


def _list(jobs: Sequence[str]) -> str:
    for job in jobs:
        if not names.JOB.fullmatch(job):
            raise ValueError(f"{job!r} is no job number")
    return ",".join(jobs)


def problem_of(output: Output) -> Optional[Problem]:
    if output.status == 0:
        return None
    message = first_line(output) or f"The command ended with status {output.status}."
    return refusal_of(message, _GONE, _DENIED)


class PriorityRow:
    """A job's terms in sprio; with several partitions or QOS the best row, and the priority in each."""

    __slots__ = ("priorities", "priority", "site", "terms")

    def __init__(self, priority: int, site: int, terms: Dict[str, int], partition: str = "", qos: str = "") -> None:
        self.priority = priority
        self.site = site
        self.terms = terms
        self.priorities: Tuple[ListedPriority, ...] = (ListedPriority(partition, qos, priority),)

    @property
    def is_fixed(self) -> bool:
        """Whether the priority itself was set: sprio then shows 0 for every term, even for an existing site factor."""
        return self.priority > 1 and self.site == 0 and not any(self.terms.values())


def parse_priorities(text: str) -> Dict[str, PriorityRow]:
    """Rows by job; unreadable rows are skipped, so that the agent's own table is used for these jobs."""
    rows: Dict[str, PriorityRow] = {}
    for line in text.splitlines():
        cells = line.split("|", 4 + len(_TERMS))
        if len(cells) < 3 + len(_TERMS):
            continue
        numbers, (partition, qos, *_) = cells[1 : 3 + len(_TERMS)], [*cells[3 + len(_TERMS) :], "", ""]
        try:
            priority, site, *terms = (integer(cell) for cell in numbers)
        except ValueError:
            continue
        partition, qos = shown(partition.strip(), MOST_NAME), shown(qos.strip(), MOST_NAME)
        row = PriorityRow(priority, site, dict(zip(_TERMS, terms)), partition, qos)
        job = cells[0].strip()
        before = rows.get(job)
        if before is not None:
            row.priorities = before.priorities = (*before.priorities, *row.priorities)
        if before is None or before.priority < priority:
            rows[job] = row
    return rows


def parse_queue_state(text: str, priorities: Dict[str, PriorityRow], knob: str, now: float) -> Queue:
    """As `parse_queue`, of a listing in STATE_COLUMNS: with sizes, running jobs, and those that ended."""
    rows: List[_Row] = []
    more: Dict[str, Times] = {}
    ended: List[EndedJob] = []
    for line in text.splitlines():
        cells = line.split("|", _N_BASE + _N_MORE)
        if len(cells) != _N_BASE + _N_MORE + 1:
            rows.append((line, []))
            continue
        times = Times(cells[_N_BASE : _N_BASE + _N_MORE])
        if _has_ended(cells[9], times, now):
            ended += _ended(cells, times)
            continue
        rows.append((line, [*cells[:_N_BASE], cells[-1]]))
        more[cells[0]] = times
    running: List[RunningJob] = []
    queue = _parse_rows(rows, priorities, knob, running)
    return queue._replace(
        jobs=[job._replace(size=more[job.id].size(job.reason)) for job in queue.jobs],
        state=QueueState([more[job.id].of(job) for job in running], ended),
    )


def _has_ended(state: str, times: Times, now: float) -> bool:
    """COMPLETING hides whether a job ended or waits for a new run, whose planned end is in the future."""
    if state != "COMPLETING":
        return state in _ENDED
    return times.end_at is not None and times.end_at <= now + _SLACK_S


def _ended(cells: Sequence[str], times: Times) -> List[EndedJob]:
    """One job, or none."""
    number, array, end_at = cells[0], cells[1], times.end_at
    if not names.JOB.fullmatch(number) or not names.JOB.fullmatch(array) or end_at is None:
        return []
    has_run = cells[9] not in _MAY_NOT_HAVE_RUN or (times.start_at is not None and times.start_at < end_at)
    started_at = times.start_at if has_run else None
    return [EndedJob(number, _array(cells), cells[9] in _CANCELLED, started_at, end_at)]


def _array(cells: Sequence[str]) -> str:
    return "" if cells[2] in ("", "N/A") else cells[1]


def parse_queue(text: str, priorities: Dict[str, PriorityRow], knob: str) -> Queue:
    """Jobs by the number that scontrol accepts: for pending tasks of an array, the array's."""
    rows = ((line, line.split("|", _N_BASE)) for line in text.splitlines())
    return _parse_rows(rows, priorities, knob, None)


def _parse_rows(
    rows: Iterable[_Row], priorities: Dict[str, PriorityRow], knob: str, running: Optional[List[RunningJob]]
) -> Queue:
    """rows: lines with their cells in QUEUE_COLUMNS. running: takes jobs that run, as far as these columns say."""
    jobs: Dict[str, Job] = {}
    known = set()
    skipped: List[str] = []
    n_damaged = 0
    for line, cells in rows:
        if len(cells) != _N_BASE + 1:
            n_columns = line.count("|") + 1
            skipped.append(f"A row of squeue has {n_columns} columns: {shown(line)}")
            n_damaged += 1
            continue
        number, array, user = cells[0], cells[1], cells[3]
        cells[4] = group = "" if cells[4] in _NO_ACCOUNT else cells[4]
        if not names.JOB.fullmatch(number) or not names.JOB.fullmatch(array):
            skipped.append(f"No job number: {shown(number)}")
            n_damaged += 1
            continue
        known.add(number)
        known.add(array)
        runs = cells[9] in _NOT_WAITING
        if runs and running is None:
            continue
        reason = _wrong_name(user, group, cells[5])
        if runs and running is not None:
            if reason is None:
                running += _running(cells)
            continue
        if reason is not None:
            skipped.append(f"Job {number}: {reason}")
            continue
        job = _job(cells, priorities.get(number), knob)
        if job is None:
            skipped.append(f"Job {number}: priority, nice, or processors are no numbers")
            n_damaged += 1
            continue
        jobs[number] = job
    return Queue(list(jobs.values()), frozenset(known), {}, skipped, n_damaged)


def _running(cells: List[str]) -> List[RunningJob]:
    """One job, or none if its processors are no number."""
    cpus = number_or_none(cells[7])
    if cpus is None:
        return []
    place = (cells[3], cells[4], cells[5], shown(cells[6], MOST_NAME))
    return [RunningJob(cells[0], _array(cells), *place, max(cpus, 0), None, (), None, instant(cells[8]), None)]


def _wrong_name(user: str, group: str, partitions: str) -> Optional[str]:
    if not names.USER.fullmatch(user):
        return f"user {shown(user)!r}"
    if group and not names.GROUP.fullmatch(group):
        return f"account {shown(group)!r}"
    if not all(names.PARTITION.fullmatch(each) for each in partitions.split(",")):
        return f"partition {shown(partitions)!r}"
    return None


def _job(cells: List[str], row: Optional[PriorityRow], knob: str) -> Optional[Job]:
    try:
        cpus, priority, nice = count(cells[7]), integer(cells[10]), integer(cells[11])
    except ValueError:
        return None
    terms: Optional[Dict[str, int]] = None
    listed: Tuple[ListedPriority, ...] = ()
    current = _current(knob, priority, nice, row)
    if row is not None:
        terms = dict(row.terms, site=row.site)
        if len(row.priorities) > 1:
            listed = tuple(sorted(row.priorities, key=lambda each: -each.priority))
            priority = priority and row.priority  # squeue prints that of one QOS, which may not be the best
    return Job(
        id=cells[0],
        array_task=cells[2] if names.ARRAY_TASK.fullmatch(cells[2]) else None,
        user=cells[3],
        group=cells[4],
        partitions=tuple(cells[5].split(",")),
        qos=shown(cells[6], 128),
        cpus=max(cpus, 0),
        submit_at=instant(cells[8]),
        is_held=priority == 0,
        reason=shown(cells[12].strip(), 100),
        priority=priority,
        terms=terms,
        current=current,
        priorities=listed,
    )


def _current(knob: str, priority: int, nice: int, row: Optional[PriorityRow]) -> Optional[int]:
    if knob == "nice":
        return nice
    if knob == "priority":
        return priority or None
    return None if row is None or row.is_fixed else row.site


def parse_config(text: str) -> Config:
    config: Config = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and name.strip() and " " not in name.strip():
            config.setdefault(name.strip(), value.strip())
    return config


def parse_shares(text: str, cluster: str) -> List[Dict[str, object]]:
    """Rows of site_commands.SSHARE by the names in its first line; LevelFS exists under Fair Tree only.

    The user of an association of one partition is named user:partition, as its entry at the site.
    """
    lines = text.splitlines()
    head = lines[0].split("|") if lines else []
    if not {"Account", "User", "RawShares", "RawUsage", "FairShare"} <= set(head):
        raise Unreadable("The first line of sshare names no columns.")
    rows: List[Dict[str, object]] = []
    above: List[str] = []  # accounts from the root down, by the indentation of a name
    for line in lines[1 : MOST_VALUES + 1]:
        cells = line.split("|")
        group = cells[0].strip()
        depth = len(cells[0]) - len(cells[0].lstrip(" "))
        if len(cells) != len(head) or not names.GROUP.fullmatch(group):
            continue
        row = dict(zip(head, cells))
        if row["User"] and not names.USER.fullmatch(row["User"]):
            continue
        shares = row["RawShares"]
        parent = None
        if not row["User"]:
            parent = above[depth - 1] if 0 < depth <= len(above) else None
            above[depth:] = [group]
        rows.append({
            "cluster": cluster,
            "group": group,
            "user": _association(row["User"], row.get("Partition", "")),
            "parent": parent,
            "raw_shares": "parent" if shares == "parent" else _whole(shares),
            "norm_shares": _real(row.get("NormShares")),
            "raw_usage": _whole(row["RawUsage"]),
            "effective_usage": _real(row.get("EffectvUsage")),
            "fairshare": _real(row["FairShare"]),
            "level_fs": "Infinity" if row.get("LevelFS") == "inf" else _real(row.get("LevelFS")),
        })  # fmt: skip
    return rows


def _association(user: str, partition: str) -> Optional[str]:
    return f"{user}:{partition.lower()}" if user and names.PARTITION.fullmatch(partition) else user or None


def _whole(text: str) -> Optional[int]:
    return int(text) if re.fullmatch(r"[0-9]{1,19}", text) else None


def _real(text: Optional[str]) -> Optional[float]:
    value = float(text) if text and re.fullmatch(r"[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?", text) else None
    return None if value == float("inf") else value


def check_config(knob: str, config: Config) -> List[Finding]:
    if knob == "limits":
        return [_check_version(config), _check_limits(config)]
    return [
        _check_priority_type(config),
        _check_own_weight(config) if knob == "shares" else _check_double_counting(knob, config),
        _check_plugin(knob, config),
        _check_version(config),
        _check_enforcement(config),
    ]


def parse_tiers(text: str) -> List[Tuple[str, int]]:
    """Name and PriorityTier of each, which is 1 unless it is set."""
    partitions = []
    for line in text.splitlines():
        name, tier = re.match(r"PartitionName=(\S+)", line), re.search(r"\sPriorityTier=([0-9]{1,5})(?:\s|$)", line)
        if name:
            partitions.append((name.group(1), int(tier.group(1)) if tier else 1))
    return partitions


def check_tiers(partitions: Sequence[Tuple[str, int]]) -> Finding:
    """Slurm starts jobs by the PriorityTier of their partition first, and by priority within it (sort_job_queue2)."""
    tiers = sorted({tier for _name, tier in partitions}, reverse=True)
    if len(tiers) < 2:
        return Finding("priority_tier", "ok", "All partitions have one PriorityTier.", "")
    of_tier = {tier: [name for name, own in partitions if own == tier] for tier in tiers}
    order = "; then ".join(f"{_some(names)} (PriorityTier={tier:d})" for tier, names in list(of_tier.items())[:3])
    remedy = "Nothing, if this is wanted: priorities decide within a tier. Else one PriorityTier for all partitions."
    return Finding(
        "priority_tier", "warning", f"Whatever their priority, jobs go by partition: {shown(order, 300)}.", remedy
    )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3:d} more" if len(names) > 3 else "")


def _check_priority_type(config: Config) -> Finding:
    kind = config.get("PriorityType", "")
    severity = "ok" if kind == "priority/multifactor" else "error"
    return Finding("priority_type", severity, f"PriorityType={shown(kind)}", "PriorityType=priority/multifactor")


def _check_double_counting(knob: str, config: Config) -> Finding:
    weight = config.get("PriorityWeightFairshare", config.get("PriorityWeightFairShare", "0"))
    severity = "ok" if weight == "0" or knob == "priority" else "error"
    text = f"PriorityWeightFairshare={shown(weight)}"
    return Finding("double_counting", severity, text, "PriorityWeightFairshare=0")


def _check_own_weight(config: Config) -> Finding:
    """Without a weight for Slurm's own fair share, shares have no effect."""
    weight = config.get("PriorityWeightFairshare", config.get("PriorityWeightFairShare", "0"))
    text = f"PriorityWeightFairshare={shown(weight)}"
    return Finding("fairshare_weight", "error" if weight == "0" else "ok", text, "PriorityWeightFairshare=100000")


def _check_plugin(knob: str, config: Config) -> Finding:
    """None is necessary; an existing plug-in sets the site factor again at each interval."""
    plugin = config.get("PrioritySiteFactorPlugin", "(null)")
    severity = "ok" if plugin in ("(null)", "", "site_factor/none") or knob != "sitefactor" else "error"
    text = f"PrioritySiteFactorPlugin={shown(plugin)}"
    return Finding("site_factor_plugin", severity, text, "PrioritySiteFactorPlugin=site_factor/none")


def _release(version: str) -> Tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match.group(1)), int(match.group(2))) if match else (0, 0)


def _check_version(config: Config) -> Finding:
    text = config["SLURM_VERSION"]
    is_known = MEASURED[0] <= _release(text) <= MEASURED[1]
    remedy = "Stay in shadow mode until the queue shows the values."
    return Finding("version", "ok" if is_known else "warning", f"Slurm {shown(text)}", "" if is_known else remedy)


def _check_enforcement(config: Config) -> Finding:
    """Without limits, sshare (unlike sacct) lacks usage since the last tick, and all usage of a short job."""
    has_limits = bool({"limits", "safe", "all"} & _enforced(config))
    text = f"AccountingStorageEnforce={shown(config.get('AccountingStorageEnforce', 'none'))}"
    return Finding(
        "usage_lost", "ok" if has_limits else "warning", text, "AccountingStorageEnforce=associations,limits"
    )


def _check_limits(config: Config) -> Finding:
    """Without limits nothing stops; without safe, GrpTRESMins ends jobs that run (both measured with 22.05.8)."""
    enforced = _enforced(config)
    text = f"AccountingStorageEnforce={shown(config.get('AccountingStorageEnforce', 'none'))}"
    remedy = "AccountingStorageEnforce=associations,limits,qos,safe"
    if not {"limits", "safe", "all"} & enforced:
        return Finding("limits_enforced", "error", text, remedy)
    return Finding("limits_enforced", "ok" if "safe" in enforced else "warning", text, remedy)


def _enforced(config: Config) -> "frozenset[str]":
    return frozenset(config.get("AccountingStorageEnforce", "none").replace(" ", "").lower().split(","))
