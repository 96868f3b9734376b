"""Records that the agent's parts exchange: jobs, responses of the server, findings and failures."""

from typing import Dict, List, NamedTuple, Optional, Tuple

from agent.queue_state import Gpus, QueueState

Account = Tuple[str, str]  # user and group (Slurm: account; Grid Engine: project), as named by the scheduler
Asked = Tuple[str, str, str]  # user, group and partition of a look-up; "" where the partition doesn't matter


class ListedPriority(NamedTuple):
    """One of a job's priorities: Slurm has one for each partition, and since 24.05 for each of its QOS there."""

    partition: str
    qos: str  # empty: the release doesn't print it
    priority: int


class Job(NamedTuple):
    """One pending job of the scheduler; the pending tasks of an array are one job."""

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
    terms: Optional[Dict[str, int]]  # terms of the priority by name; None: the scheduler lists none
    current: Optional[int]  # present value of the knob, if the scheduler lists it; otherwise None
    priorities: Tuple[ListedPriority, ...] = ()  # best first, if the scheduler lists several; `priority` is the best
    submitter: str = ""  # whose value it has; empty: its own
    size: Optional["Size"] = None  # None: the listing has none

    @property
    def holder(self) -> str:
        """What the value belongs to: the job, or its submitter."""
        return self.submitter or self.id

    @property
    def differing(self) -> Tuple[int, ...]:
        """Its priorities, if they differ."""
        values = tuple(each.priority for each in self.priorities)
        return values if len(set(values)) > 1 else ()

    @property
    def account(self) -> Account:
        return (self.user, self.group)

    @property
    def asked(self) -> Asked:
        """What its factor depends on. Slurm accepts several partitions only if all have the same association."""
        return (self.user, self.group, self.partitions[0] if self.partitions else "")


class Size(NamedTuple):
    """What a waiting job asks for beside processors, and when it may and should start; as `RunningJob` has it."""

    nodes: Optional[int]
    gpus: Gpus
    limit_s: Optional[float]
    eligible_at: Optional[float]
    planned_at: Optional[float]  # by the scheduler itself
    has_dependency: bool


class Queue(NamedTuple):
    """One listing: pending jobs, ids of all unfinished jobs, values of running jobs, and skipped rows."""

    jobs: List[Job]
    known: "frozenset[str]"
    running: Dict[str, int]  # values of started jobs, if they affect pending ones
    skipped: List[str]  # why a row was skipped, one sentence each
    n_damaged: int  # number of skipped rows that aren't rows of this listing; the others have invalid names
    listed: Optional[Dict[str, str]] = None  # present values by holder, where a reset restores them; None: it clears
    state: Optional[QueueState] = None  # what runs beside them; None: it wasn't asked for, or isn't known


class Answer(NamedTuple):
    """The server's result for one account; `factor` of an unmapped account is the policy's fallback factor."""

    entry: Optional[str]
    factor: float
    error: Optional[str]


class LookUp(NamedTuple):
    snapshot: Optional[int]
    age_s: float
    answers: Dict[Asked, Answer]


class Finding(NamedTuple):
    """Result of one check of the scheduler's configuration, with the line that corrects it."""

    code: str
    severity: str  # error, warning, ok
    found: str
    remedy: str


class Frozen(NamedTuple):
    """Why a pass sends nothing; codes are those of the server."""

    code: str
    detail: str


class Problem(NamedTuple):
    """Why a command changed nothing: job_gone, denied, timeout, refused or unreadable."""

    code: str
    detail: str


class Unreadable(Exception):
    """A command's output is invalid or came too late; the message names the command."""


class ServerFailure(Exception):
    """The server is unreachable, rejects the request or sends an invalid response; the message says what to do."""


class ServerAway(ServerFailure):
    """The server can't be reached, or is overloaded or broken: what it last said still holds for a while."""


class Refused(Exception):
    """Wrong use of the agent itself: arguments, files, a second agent."""
