"""Set one value for many jobs at once, in bounded lists; a failing group is split until the job at fault is found.

What failed in an earlier pass comes last and by itself, so that it keeps no other from its turn.
"""

from typing import Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from agent import turns
from agent.records import Problem
from agent.state import Table

MOST_JOBS = 200  # jobs a call: a busy Slurm needs some milliseconds for each
MOST_CHARACTERS = 6000
MOST_RETRIES = 200  # calls a pass that search for jobs at fault
MOST_TIMEOUTS = 2
MOST_FAILED_AGAIN = 20  # jobs a pass, of those that failed before
NOT_SENT = "not_sent"  # by job, when it failed; see agent.turns

Due = Sequence[Tuple[str, int]]
Send = Callable[[int, Sequence[str]], Optional[Problem]]


class Sent(NamedTuple):
    done: List[str]
    gone: List[str]  # ended, or started and ended, meanwhile
    problems: Dict[str, Tuple[int, str]]  # code → number of jobs and the first message
    n_updates: int = 0  # jobs in all calls, also in those that failed
    failed: Sequence[str] = ()  # tried without effect: not those that had no turn

    @property
    def n_failed(self) -> int:
        return sum(n for code, (n, _) in self.problems.items() if code != "job_gone")


def refusal_of(message: str, gone: Sequence[str], denied: Sequence[str]) -> Problem:
    """The problem of a command that failed. gone, denied: parts of messages about ended jobs and missing rights."""
    if any(each in message for each in gone):
        return Problem("job_gone", message)
    if any(each in message for each in denied):
        return Problem("denied", message)
    return Problem("refused", message)


class _Sender:
    def __init__(self, send: Send) -> None:
        self._send = send
        self._n_updates = 0
        self._retries = MOST_RETRIES
        self._timeouts = 0
        self._stopped: Optional[Problem] = None
        self._sent = Sent([], [], {})
        self._tried_in_vain: List[str] = []

    @property
    def sent(self) -> Sent:
        return self._sent._replace(n_updates=self._n_updates, failed=self._tried_in_vain)

    def group(self, value: int, jobs: Sequence[str], is_retry: bool = False) -> None:
        if self._stopped is None and is_retry and self._retries <= 0:
            self._stopped = Problem("refused", "Too many calls failed in this pass; the next one goes on.")
        if self._stopped is not None:
            self._failed(self._stopped, jobs)
            return
        self._retries -= is_retry
        self._n_updates += len(jobs)
        problem = self._send(value, jobs)
        if problem is None:
            self._sent.done.extend(jobs)
        elif problem.code == "timeout":
            self._timed_out(problem, jobs)
        elif len(jobs) > 1:
            middle = len(jobs) // 2
            self.group(value, jobs[:middle], is_retry=True)
            self.group(value, jobs[middle:], is_retry=True)
        else:
            self._one_failed(problem, jobs[0])

    def _timed_out(self, problem: Problem, jobs: Sequence[str]) -> None:
        self._timeouts += 1
        self._failed(problem, jobs)
        self._tried_in_vain.extend(jobs)
        if self._timeouts >= MOST_TIMEOUTS:
            self._stopped = problem

    def _one_failed(self, problem: Problem, job: str) -> None:
        self._failed(problem, [job])
        if problem.code == "job_gone":
            self._sent.gone.append(job)
            return
        self._tried_in_vain.append(job)
        if problem.code == "denied":
            self._stopped = problem  # if one change is denied, so are the others

    def _failed(self, problem: Problem, jobs: Sequence[str]) -> None:
        n, detail = self._sent.problems.get(problem.code, (0, problem.detail))
        self._sent.problems[problem.code] = (n + len(jobs), detail)


def send_in_turns(table: Table, due: Due, apply: Callable[[Due], Sent]) -> Sent:
    """Send by `apply` what never failed, then what failed before, each by itself; note in the table what fails."""
    before = table.facts.get(NOT_SENT, {})
    first = [each for each in due if each[0] not in before]
    again = turns.sort(table, NOT_SENT, (each for each in due if each[0] in before), lambda each: each[0])
    sent = apply(first) if first else Sent([], [], {})
    n_failed = 0 if len(sent.done) + len(sent.gone) + len(sent.failed) >= len(first) else MOST_FAILED_AGAIN
    for n_tried, each in enumerate(again):
        if n_failed >= MOST_FAILED_AGAIN:
            problem = "Jobs that failed before: the next passes go on with them."
            sent = _sum(sent, Sent([], [], {"refused": (len(again) - n_tried, problem)}))
            break
        one = apply([each])
        sent = _sum(sent, one)
        n_failed += MOST_FAILED_AGAIN if one.problems.keys() & {"timeout", "denied"} else len(one.failed)
    ended = [*sent.done, *sent.gone, *(job for job in before if job not in table)]
    turns.note(table, NOT_SENT, sent.failed, ended)
    return sent


def _sum(one: Sent, other: Sent) -> Sent:
    problems = dict(one.problems)
    for code, (n, detail) in other.problems.items():
        n_before, first_detail = problems.get(code, (0, detail))
        problems[code] = (n_before + n, first_detail)
    done, gone, failed = [*one.done, *other.done], [*one.gone, *other.gone], [*one.failed, *other.failed]
    return Sent(done, gone, problems, one.n_updates + other.n_updates, failed)


def send_all(due: Iterable[Tuple[str, int]], send: Send) -> Sent:
    """Send all of `due` in order; neighbours with the same value share a call."""
    sender = _Sender(send)
    for value, jobs in groups(due):
        sender.group(value, jobs)
    return sender.sent


def groups(due: Iterable[Tuple[str, int]]) -> List[Tuple[int, List[str]]]:
    batches: List[Tuple[int, List[str]]] = []
    length = 0
    for job, value in due:
        fits = batches and batches[-1][0] == value and len(batches[-1][1]) < MOST_JOBS
        if not fits or length + len(job) + 1 > MOST_CHARACTERS:
            batches.append((value, []))
            length = 0
        batches[-1][1].append(job)
        length += len(job) + 1
    return batches
