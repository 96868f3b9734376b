"""Adapter for Slurm by squeue, sprio, scontrol, sshare and sacctmgr, as measured with 22.05.8.

Text with chosen columns instead of `squeue --json`: the columns are the same in every release, it needs no plug-in, and
50,000 jobs are 5 MB instead of 150. Free text (job names) isn't requested, so that `|` only separates columns.
"""

import os
import pwd
import re
from typing import Dict, List, Optional, Sequence, Tuple

from agent import names
from agent.adapters import Adapter, Config
from agent.commands import Output, TimedOut, first_line
from agent.names import shown
from agent.records import Asked, Finding, Job, Problem, Queue, Unreadable
from agent.sending import Sent, refusal_of, send_all
from agent.shares import SLURM_COLUMNS, ShareLine, Shares, parse_associations, slurm_argv

QUEUE_COLUMNS = "%A|%F|%K|%u|%a|%P|%q|%C|%V|%T|%Q|%y|%r"
PRIORITY_COLUMNS = "%i|%Y|%S|%A|%B|%F|%J|%P|%Q|%N"
SSHARE = ["sshare", "--all", "--parsable2", "--long", "--partition"]
_UNFINISHED = "PENDING,RUNNING,SUSPENDED"
# Flags hide the base of a job that runs. A job that waits for a new run may print COMPLETING or REQUEUED.
_NOT_WAITING = ("RUNNING", "SUSPENDED", "CONFIGURING", "RESIZING", "STOPPED", "SIGNALING", "STAGE_OUT")
_UNIT = re.compile(r"(\d{1,9}(?:\.\d{1,2})?)([KMGTP])", re.ASCII)
_INTEGER = re.compile(r" *-?[0-9]{1,19} *")
_SECONDS = re.compile(r"[0-9]{1,11}")
_TERMS = ("age", "assoc", "fairshare", "jobsize", "partition", "qos", "nice")
_KEYS = {"sitefactor": "sitefactor", "nice": "nice", "priority": "priority"}
MEASURED = ((20, 11), (25, 11))  # supported releases
MOST_VALUES = 50_000
_NO_ACCOUNT = ("", "(null)", "N/A")  # for a site without accounting
_NO_PRIORITIES = "Unable to find jobs matching"
_GONE = ("already finished", "Invalid job id", "Job/step already completing or completed")
_DENIED = ("permission denied", "Access/permission", "Permission denied", "Invalid user id")


class Slurm(Adapter):
    _cluster = ""

    def names_of(self, asked: Asked) -> Dict[str, str]:
        return {name: value for name, value in zip(("user", "group", "partition"), asked) if value}

    def read_queue(self, knob: str, most_value: int) -> Queue:
        argv = ["squeue", "--noheader", "--all", "--local", "--states=" + _UNFINISHED, "--format=" + QUEUE_COLUMNS]
        listing = self.commands.read(argv)
        return parse_queue(listing, parse_priorities(self._sprio()), knob)

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
        text = self.commands.read(["scontrol", "--oneliner", "show", "partition"])
        return re.findall(r"^PartitionName=(\S+)", text, re.MULTILINE)

    def read_config(self) -> Config:
        text = self.commands.read(["scontrol", "show", "config"])
        config = parse_config(text)
        if "SLURM_VERSION" not in config:
            raise Unreadable("scontrol show config prints no SLURM_VERSION.")
        self._cluster = config.get("ClusterName", "")
        return config

    def read_values(self) -> Optional[List[Dict[str, object]]]:
        return parse_shares(self.commands.read(SSHARE), self._cluster)

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

    def version(self, config: Config) -> str:
        return shown(config.get("SLURM_VERSION", ""))

    def check(self, knob: str, config: Config) -> List[Finding]:
        return [*check_config(knob, config), self._check_operator(config)]

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
    """A job's terms in sprio; with several partitions the best row."""

    __slots__ = ("priority", "site", "terms")

    def __init__(self, priority: int, site: int, terms: Dict[str, int]) -> None:
        self.priority = priority
        self.site = site
        self.terms = terms

    @property
    def is_fixed(self) -> bool:
        """Whether the priority itself was set: sprio then shows 0 for every term, even for an existing site factor."""
        return self.priority > 1 and self.site == 0 and not any(self.terms.values())


def parse_priorities(text: str) -> Dict[str, PriorityRow]:
    """Rows by job; unreadable rows are skipped, so that the agent's own table is used for these jobs."""
    rows: Dict[str, PriorityRow] = {}
    for line in text.splitlines():
        cells = line.split("|")
        if len(cells) != 3 + len(_TERMS):
            continue
        try:
            priority, site, *terms = (_integer(cell) for cell in cells[1:])
            row = PriorityRow(priority, site, dict(zip(_TERMS, terms)))
        except ValueError:
            continue
        job = cells[0].strip()
        if job not in rows or rows[job].priority < priority:
            rows[job] = row
    return rows


def parse_queue(text: str, priorities: Dict[str, PriorityRow], knob: str) -> Queue:
    """Jobs by the number that scontrol accepts: for pending tasks of an array, the array's."""
    jobs: Dict[str, Job] = {}
    known = set()
    skipped: List[str] = []
    n_damaged = 0
    for line in text.splitlines():
        cells = line.split("|", 12)
        if len(cells) != 13:
            skipped.append(f"A row of squeue has {len(cells)} columns: {shown(line)}")
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
        if cells[9] in _NOT_WAITING:
            continue
        reason = _wrong_name(user, group, cells[5])
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
        cpus, priority, nice = _count(cells[7]), _integer(cells[10]), _integer(cells[11])
    except ValueError:
        return None
    terms: Optional[Dict[str, int]] = None
    if row is not None:
        terms = dict(row.terms, site=row.site)
    return Job(
        id=cells[0],
        array_task=cells[2] if names.ARRAY_TASK.fullmatch(cells[2]) else None,
        user=cells[3],
        group=cells[4],
        partitions=tuple(cells[5].split(",")),
        qos=shown(cells[6], 128),
        cpus=max(cpus, 0),
        submit_at=float(cells[8]) if _SECONDS.fullmatch(cells[8]) else None,
        is_held=priority == 0,
        reason=shown(cells[12].strip(), 100),
        priority=priority,
        terms=terms,
        current=_current(knob, priority, nice, row),
    )


def _integer(text: str) -> int:
    """Raises: ValueError for anything that Slurm doesn't print as a number."""
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"no number: {shown(text)}")
    return int(text)


def _count(text: str) -> int:
    """A number of squeue, with a unit letter from 1,024 on: 1K is 1024, 1.50K is 1536."""
    match = _UNIT.fullmatch(text)
    if match is None:
        return _integer(text)
    return int(float(match.group(1)) * 1024 ** ("KMGTP".index(match.group(2)) + 1))


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
    """Rows of `sshare -a -P -l -m` by the names in its first line; LevelFS exists under Fair Tree only.

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
    return [
        _check_priority_type(config),
        _check_own_weight(config) if knob == "shares" else _check_double_counting(knob, config),
        _check_plugin(knob, config),
        _check_version(config),
        _check_enforcement(config),
    ]


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


def _check_version(config: Config) -> Finding:
    text = config["SLURM_VERSION"]
    match = re.match(r"(\d+)\.(\d+)", text)
    release = (int(match.group(1)), int(match.group(2))) if match else (0, 0)
    is_known = MEASURED[0] <= release <= MEASURED[1]
    remedy = "Stay in shadow mode until the queue shows the values."
    return Finding("version", "ok" if is_known else "warning", f"Slurm {shown(text)}", "" if is_known else remedy)


def _check_enforcement(config: Config) -> Finding:
    """Without limits, sshare (unlike sacct) lacks usage since the last tick, and all usage of a short job."""
    enforced = config.get("AccountingStorageEnforce", "none")
    has_limits = bool({"limits", "safe", "all"} & set(enforced.replace(" ", "").split(",")))
    text = f"AccountingStorageEnforce={shown(enforced)}"
    return Finding(
        "usage_lost", "ok" if has_limits else "warning", text, "AccountingStorageEnforce=associations,limits"
    )
