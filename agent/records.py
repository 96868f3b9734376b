"""What the parts of the agent hand to each other: jobs, answers of the server, findings and failures."""

from typing import Dict, List, NamedTuple, Optional, Tuple

Account = Tuple[str, str]  # user and group (Slurm: account; Grid Engine: project), as the scheduler names them


class Job(NamedTuple):
    """One pending record of the scheduler; the pending tasks of an array are one record."""

    id: str
    array_task: Optional[str]
    user: str
    group: str
    partitions: Tuple[str, ...]
    qos: str
    cpus: int
    submit_at: Optional[float]  # seconds since 1970
    is_held: bool
    reason: str
    priority: float
    terms: Optional[Dict[str, int]]  # of the priority, by name; None: the scheduler lists none
    current: Optional[int]  # what the knob is set to, as the scheduler lists it; None: it doesn't

    @property
    def account(self) -> Account:
        return (self.user, self.group)


class Queue(NamedTuple):
    """One listing: pending jobs, ids of every unfinished job, what running jobs still carry, and rows left out."""

    jobs: List[Job]
    known: "frozenset[str]"
    running: Dict[str, int]  # values that started jobs still have, where they disturb pending ones
    skipped: List[str]  # why a row was left out, one sentence each
    n_damaged: int  # of these, rows that are no rows of this listing; the others have odd names alone


class Answer(NamedTuple):
    """The server's answer about one account; `factor` of an unmapped account is the policy's fallback factor."""

    entry: Optional[str]
    factor: float
    error: Optional[str]


class LookUp(NamedTuple):
    snapshot: Optional[int]
    age_s: float
    answers: Dict[Account, Answer]


class Finding(NamedTuple):
    """One check of the scheduler's configuration, with the line that mends it."""

    code: str
    severity: str  # error, warning, ok
    found: str
    remedy: str


class Frozen(NamedTuple):
    """Why a pass sends nothing; codes as the server knows them."""

    code: str
    detail: str


class Problem(NamedTuple):
    """Why a command changed nothing: job_gone, denied, timeout, refused or unreadable."""

    code: str
    detail: str


class Unreadable(Exception):
    """What a command printed is no answer, or there was none in time; the message says which command."""


class ServerFailure(Exception):
    """The server can't be reached, refuses, or its answer is no answer; the message says what to do."""


class Refused(Exception):
    """Wrong use of the agent itself: arguments, files, a second agent."""
