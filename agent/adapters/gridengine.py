"""Adapter for Grid Engine by qstat, qalter and qconf, as measured with 8.1.9.

Override tickets count relative to the largest of all jobs, including started ones: every pending job gets a value, and
a started job with more than the present weight is cleared. A job without a value is last.
"""

import grp
import os
import pwd
import re
import time
from functools import lru_cache
from typing import Dict, List, Optional, Sequence, Tuple, Union
from xml.parsers import expat

from agent import names
from agent.adapters import Adapter, Config
from agent.commands import Output, TimedOut, first_line
from agent.names import shown
from agent.queue_state import Partition, QueueState, RunningJob
from agent.records import Asked, Finding, Job, Problem, Queue, Size, Unreadable
from agent.sending import Sent, refusal_of, send_all
from agent.shares import NO_TREE, ShareLine, Shares, gridengine_argv, parse_share_tree

_OPTIONS = {"override_tickets": "-ot", "priority": "-p"}
_FIELDS = {"override_tickets": "JB_override_tickets", "priority": "JB_priority"}
_KEPT = {
    "JB_job_number", "JB_owner", "JB_project", "JB_department", "state", "slots", "tasks", "JB_submission_time",
    "JAT_prio", "JB_override_tickets", "JB_priority", "hard_req_queue", "JAT_start_time", "queue_name",
    "predecessor_jobs", "h_rt", "name", "total", "available", "temp_disabled", "manual_intervention",
}  # fmt: skip
_GONE = ("does not exist", "do not exist", "no such job", "unknown job")
_DENIED = ("must be operator", "must be manager", "must be at least owner", "denied")
MEASURED = re.compile(r"8\.1\.\d+")
MOST_FIELD = 1000  # characters
_TICKETS = ("weight_tickets_functional", "weight_tickets_share")


class GridEngine(Adapter):
    def names_of(self, asked: Asked) -> Dict[str, str]:
        """With the user's group, which is in the accounting file but not in qstat."""
        user, project, _queue = asked
        fields = {"user": user, "group": primary_group(user), "project": project}
        return {name: value for name, value in fields.items() if value}

    def read_queue(self, knob: str, most_value: int) -> Queue:
        listing = self.commands.read(["qstat", "-xml", "-ext", "-urg", "-pri", "-r", "-s", "pr", "-u", "*"])
        return parse_queue(listing, knob, most_value)

    def read_queue_state(self, knob: str, most_value: int, config: Config) -> Queue:
        """By the same call of qstat, and one more: it has no reservations, nodes, limits of queues or GPUs by type."""
        queue = self.read_queue(knob, most_value)
        state = queue.state or QueueState([], [])
        try:
            state = state._replace(partitions=parse_queues(self.commands.read(["qstat", "-g", "c", "-xml"])))
        except Unreadable as error:
            state = state._replace(problem=str(error))
        return queue._replace(state=state)

    def read_partitions(self) -> List[str]:
        """Queues: a pending job belongs to those that it requests by name."""
        return self.commands.read(["qconf", "-sql"]).split()

    def read_config(self) -> Config:
        config = parse_config(self.commands.read(["qconf", "-ssconf"]))
        if "weight_ticket" not in config:
            raise Unreadable("qconf -ssconf prints no weight_ticket.")
        help_text = self.commands.run(["qconf", "-help"])
        config["version"] = (help_text.out or help_text.err).partition("\n")[0].strip()
        return config

    def read_values(self) -> Optional[List[Dict[str, object]]]:
        return None

    def version(self, config: Config) -> str:
        return shown(config.get("version", ""))

    def check(self, knob: str, config: Config) -> List[Finding]:
        return [*check_config(knob, config), self._check_operator(("-sm",) if knob == "shares" else ("-so", "-sm"))]

    def _check_operator(self, lists: Tuple[str, ...]) -> Finding:
        """Only managers can change the share tree."""
        name = pwd.getpwuid(os.geteuid()).pw_name
        listed = set()
        for option in lists:
            output = self.commands.run(["qconf", option])
            if output.status == 0:
                listed |= set(output.out.split())
        severity = "ok" if name in listed else "error"
        text = f"The agent runs as {name}: {'an operator or manager' if name in listed else 'no operator'}."
        return Finding("operator_right", severity, text, f"qconf {'-ao' if '-so' in lists else '-am'} {name}")

    def read_shares(self) -> Optional[Shares]:
        output = self.commands.run(["qconf", "-sstree"])
        if output.status != 0 and NO_TREE in output.out + output.err:
            return None
        if output.status != 0:
            raise Unreadable(f"qconf -sstree ended with status {output.status}: {first_line(output)}")
        return parse_share_tree(output.out)

    def set_share(self, cluster: str, line: ShareLine, in_partitions: bool) -> Optional[Problem]:
        """The exit status says nothing: it is 0 for a missing node and for a denied change, too."""
        try:
            output = self.commands.run(gridengine_argv(line))
        except ValueError as error:
            return Problem("refused", str(error))
        except TimedOut as error:
            return Problem("timeout", str(error))
        except Unreadable as error:
            return Problem("unreadable", str(error))
        denied = next((each for each in (output.err + output.out).splitlines() if each.startswith("denied")), None)
        return problem_of(output) if denied is None else Problem("denied", shown(denied, 300))

    def apply(self, knob: str, due: Sequence[Tuple[str, int]]) -> Sent:
        return send_all(due, lambda value, jobs: self._qalter(_OPTIONS[knob], value, jobs))

    def reset_values(self, knob: str, jobs: Sequence[str]) -> Sent:
        return self.apply(knob, [(job, 0) for job in jobs])

    def to_reset(self, knob: str, queue: Queue, ours: Sequence[str]) -> List[str]:
        """Override tickets can only be set by operators; -p can also be set by users."""
        jobs = [job for job in ours if job in queue.known]
        if knob == "override_tickets":
            others = {job.id for job in queue.jobs if job.current} | set(queue.running)
            jobs += sorted(others - set(ours))
        return jobs

    def _qalter(self, option: str, value: int, jobs: Sequence[str]) -> Optional[Problem]:
        for job in jobs:
            if not names.JOB.fullmatch(job):
                raise ValueError(f"{job!r} is no job number")
        try:
            return problem_of(self.commands.run(["qalter", option, f"{value:d}", ",".join(jobs)]))
        except TimedOut as error:
            return Problem("timeout", str(error))
        except Unreadable as error:
            return Problem("unreadable", str(error))


@lru_cache(maxsize=100_000)
def primary_group(user: str) -> str:
    """Empty if this host doesn't know the user."""
    try:
        group = grp.getgrgid(pwd.getpwnam(user).pw_gid).gr_name
    except KeyError:
        return ""
    return group if names.GROUP.fullmatch(group) else ""


def problem_of(output: Output) -> Optional[Problem]:
    if output.status == 0:
        return None
    message = _complaint(output) or f"qalter ended with status {output.status}."
    return refusal_of(message, _GONE, _DENIED)


def _complaint(output: Output) -> Optional[str]:
    """Find the failure: qalter prints a line for each job, also for those that it changed."""
    for line in (output.err + "\n" + output.out).splitlines():
        if line.strip() and " sets " not in line:
            return shown(line.strip(), 300)
    return first_line(output)


def parse_queue(text: str, knob: str, most_value: int) -> Queue:
    """Jobs by number; an array's pending tasks are one job. Raises: Unreadable unless it is complete, plain XML."""
    jobs: Dict[str, Job] = {}
    known = set()
    running: Dict[str, int] = {}
    started: List[RunningJob] = []
    skipped: List[str] = []
    n_damaged = 0
    for row in _rows(text, "job_list"):
        number = row.get("JB_job_number", "")
        if not names.JOB.fullmatch(number):
            skipped.append(f"No job number: {shown(number)}")
            n_damaged += 1
            continue
        known.add(number)
        if row["list"] == "running":
            started += _running(row)
            value = _whole(row.get(_FIELDS[knob], ""))
            if knob == "override_tickets" and value is not None and value > most_value:
                running[number] = value
            continue
        job = _job(row, knob)
        if isinstance(job, str):
            skipped.append(f"Job {number}: {job}")
        else:
            jobs.setdefault(number, job)
    for number in jobs:
        running.pop(number, None)  # its running and pending tasks have the same value
    state = QueueState(started, [])
    return Queue(list(jobs.values()), frozenset(known), running, skipped, n_damaged, state=state)


def _running(row: Dict[str, str]) -> List[RunningJob]:
    """One job or task, or none if a name or number is no valid one. Its submission isn't listed."""
    user, project, slots = row.get("JB_owner", ""), row.get("JB_project", ""), _whole(row.get("slots", ""))
    is_named = names.USER.fullmatch(user) and (not project or names.GROUP.fullmatch(project))
    if not is_named or slots is None:
        return []
    number, task = row["JB_job_number"], row.get("tasks", "")
    is_task = names.ARRAY_TASK.fullmatch(task) is not None
    queue = shown(row.get("queue_name", "").partition("@")[0], 128)
    started_at = _local_time(row.get("JAT_start_time", ""))
    return [
        RunningJob(
            id=f"{number}.{task}"[:40] if is_task else number,
            array=number if is_task else "",
            user=user,
            group=project,
            partition=queue,
            qos="",
            cpus=max(slots, 0),
            nodes=None,
            gpus=(),
            limit_s=_seconds(row.get("h_rt", "")),
            submit_at=None,
            started_at=started_at,
        )
    ]


def _seconds(text: str) -> Optional[float]:
    """A limit of the run time; None for INFINITY."""
    return float(text) if re.fullmatch(r"[0-9]{1,10}(?:\.[0-9]+)?", text, re.ASCII) else None


def parse_queues(text: str) -> List[Partition]:
    """Capacity by queue from `qstat -g c -xml`, in slots. A queue whose slots are all disabled is not up."""
    partitions = []
    for row in _rows(text, "cluster_queue_summary"):
        name = row.get("name", "")
        numbers = [_whole(row.get(each, "")) for each in ("total", "available", "temp_disabled", "manual_intervention")]
        if not names.PARTITION.fullmatch(name) or None in numbers:
            continue
        total, free, alarm, disabled = (max(number or 0, 0) for number in numbers)
        is_up = total == 0 or alarm + disabled < total
        partitions.append(Partition(name, is_up, None, total, free, 0, 0, 0, (), ()))
    return partitions


def _job(row: Dict[str, str], knob: str) -> Union[Job, str]:
    """A job, or the reason why its row is skipped."""
    user, project = row.get("JB_owner", ""), row.get("JB_project", "")
    wanted = (each.partition("@")[0] for each in row.get("hard_req_queue", "").split("\n"))
    partitions = tuple(shown(each, 128) for each in wanted if each)
    if not names.USER.fullmatch(user):
        return f"user {shown(user)!r}"
    if project and not names.GROUP.fullmatch(project):
        return f"project {shown(project)!r}"
    slots, current = _whole(row.get("slots", "")), _whole(row.get(_FIELDS[knob], ""))
    try:
        priority = float(row.get("JAT_prio", ""))
    except ValueError:
        return "its priority is no number"
    if slots is None or current is None or not -1e9 < priority < 1e9:
        return "slots, tickets or priority are no numbers"
    tasks, state = row.get("tasks", ""), row.get("state", "")
    return Job(
        id=row["JB_job_number"],
        array_task=tasks if names.ARRAY_TASK.fullmatch(tasks) else None,
        user=user,
        group=project,
        partitions=partitions,
        qos="",
        cpus=slots,
        submit_at=_local_time(row.get("JB_submission_time", "")),
        is_held="h" in state,
        reason=shown(state, 64),
        priority=priority,
        terms=None,
        current=current,
        size=Size(None, (), _seconds(row.get("h_rt", "")), None, None, bool(row.get("predecessor_jobs"))),
    )


def _rows(text: str, element: str) -> List[Dict[str, str]]:
    reader = _Reader(element)
    parser = expat.ParserCreate()
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    parser.StartDoctypeDeclHandler = _refuse
    parser.EntityDeclHandler = _refuse
    parser.ProcessingInstructionHandler = _refuse
    parser.buffer_text = True
    try:
        parser.Parse(text.encode("utf-8", "replace"), True)
    except expat.ExpatError as error:
        raise Unreadable(f"The XML of qstat can't be read: {error}.")
    if not reader.is_queue:
        raise Unreadable("The XML of qstat is no list of jobs.")
    return reader.rows


def _refuse(*_: object) -> None:
    raise Unreadable("The XML of qstat has declarations of its own.")


class _Reader:
    """Collects the fields of each element of one name; all others are ignored."""

    def __init__(self, element: str) -> None:
        self._element = element
        self.rows: List[Dict[str, str]] = []
        self.is_queue = False
        self._row: Optional[Dict[str, str]] = None
        self._field = ""
        self._text: List[str] = []

    def start(self, name: str, attributes: Dict[str, str]) -> None:
        self.is_queue |= name == "job_info"
        if name == self._element:
            self._row = {"list": attributes.get("state", "")}
        if name == "hard_request":
            name = attributes.get("name", "")
        self._field, self._text = name, []

    def text(self, text: str) -> None:
        if self._row is not None and self._field in _KEPT:
            self._text.append(text)

    def end(self, name: str) -> None:
        if self._row is None:
            return
        if name == self._element:
            self.rows.append(self._row)
            self._row = None
            return
        if name == "hard_request":
            name = self._field
        if name == self._field and name in _KEPT:
            text = "".join(self._text)[:MOST_FIELD]
            self._row[name] = self._row[name] + "\n" + text if name in self._row else text
        self._field = ""


def _whole(text: str) -> Optional[int]:
    return int(text) if re.fullmatch(r"-?[0-9]{1,10}", text, re.ASCII) else None


def _local_time(text: str) -> Optional[float]:
    """Parse a time of qstat, which is this host's local time, without zone."""
    match = re.fullmatch(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(\.\d+)?", text, re.ASCII)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(each) for each in match.groups()[:6])
    try:
        return time.mktime((year, month, day, hour, minute, second, 0, 1, -1))
    except (OverflowError, ValueError):
        return None


def parse_config(text: str) -> Config:
    config: Config = {}
    for line in text.splitlines():
        words = line.split(None, 1)
        if len(words) == 2:
            config[words[0]] = words[1].strip()
    return config


def check_config(knob: str, config: Config) -> List[Finding]:
    if knob == "shares":
        return [_check_weight("weight_ticket", config), _check_weight("weight_tickets_share", config), _version(config)]
    weight = "weight_ticket" if knob == "override_tickets" else "weight_priority"
    findings = [
        _check_weight(weight, config),
        _check_beside("weight_urgency", config),
        _check_beside("weight_priority" if knob == "override_tickets" else "weight_ticket", config),
        *(_check_tickets(name, config) for name in _TICKETS if knob == "override_tickets"),
    ]
    return [*findings, _version(config)]


def _version(config: Config) -> Finding:
    version = config.get("version", "")
    is_known = MEASURED.search(version) is not None
    remedy = "" if is_known else "Stay in shadow mode until the queue shows the values."
    return Finding("version", "ok" if is_known else "warning", shown(version), remedy)


def _check_weight(name: str, config: Config) -> Finding:
    """With a weight of 0 the knob has no effect."""
    severity = "error" if _real(config.get(name)) == 0 else "ok"
    enough = "1000000" if name == "weight_tickets_share" else "1.000000"
    return Finding(name + "_inert", severity, _as_set(name, config), f"{name} {enough} (qconf -msconf)")


def _check_beside(name: str, config: Config) -> Finding:
    """Other settings that affect the order; a site may want them."""
    severity = "ok" if _real(config.get(name)) == 0 else "warning"
    return Finding(name, severity, _as_set(name, config), f"{name} 0.000000 (qconf -msconf)")


def _check_tickets(name: str, config: Config) -> Finding:
    """Tickets of Grid Engine's own policies are added to ours, so that usage counts twice."""
    severity = "ok" if _real(config.get(name)) == 0 else "error"
    return Finding("double_counting", severity, _as_set(name, config), f"{name} 0 (qconf -msconf)")


def _as_set(name: str, config: Config) -> str:
    return f"{name} {shown(config.get(name, 'is missing'))}"


def _real(text: Optional[str]) -> float:
    try:
        return float(text or 0)
    except ValueError:
        return 0.0
