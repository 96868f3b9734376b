"""One adapter a scheduler, with a common interface for the loop."""

from abc import abstractmethod
from typing import Dict, List, Optional, Sequence, Tuple

from agent.commands import Commands
from agent.limit_journal import SetsLimits
from agent.limits import Accounts, Jobs, Settings
from agent.records import Asked, Finding, Problem, Queue, Unreadable
from agent.sending import Sent
from agent.shares import SetsShares

Config = Dict[str, str]


class Adapter(SetsShares, SetsLimits):
    """Interface of an adapter. All methods raise Unreadable if the scheduler gives no valid output."""

    def __init__(self, commands: Commands) -> None:
        self.commands = commands

    def read_accounts(self, cluster: str = "") -> Optional[Accounts]:
        return None

    def read_account_jobs(self) -> Jobs:
        return Jobs(frozenset(), frozenset())

    def set_limit(self, cluster: str, account: str, settings: Settings) -> Optional[Problem]:
        return Problem("refused", "This scheduler has no limits of accounts.")

    def ends_running_jobs(self, config: Config) -> bool:
        """Whether the scheduler ends running jobs of an account that reaches a limit."""
        return True

    @abstractmethod
    def names_of(self, asked: Asked) -> Dict[str, str]:
        """The account as named in a look-up, without empty names."""

    @abstractmethod
    def read_queue(self, knob: str, most_value: int) -> Queue: ...

    def read_queue_state(self, knob: str, most_value: int, config: Config) -> Queue:
        """The queue with `Queue.state` and sizes of jobs, as far as the scheduler lists them."""
        return self.read_queue(knob, most_value)

    @abstractmethod
    def read_partitions(self) -> List[str]: ...

    @abstractmethod
    def read_config(self) -> Config: ...

    @abstractmethod
    def read_values(self) -> Optional[List[Dict[str, object]]]:
        """Shares, usage and factors of the scheduler itself; None if it doesn't list them."""

    @abstractmethod
    def version(self, config: Config) -> str: ...

    @abstractmethod
    def check(self, knob: str, config: Config) -> List[Finding]: ...

    @abstractmethod
    def apply(self, knob: str, due: Sequence[Tuple[str, int]]) -> Sent: ...

    @abstractmethod
    def reset_values(self, knob: str, jobs: Sequence[str]) -> Sent:
        """Reset jobs as if no value had been set."""

    def value_of(self, printed: str) -> int:
        """What the table has for a value as the scheduler prints it (`Queue.listed`)."""
        raise Unreadable("This scheduler's values are cleared, not restored.")

    def restore_values(self, knob: str, former: Dict[str, str]) -> Sent:
        """Set former values again, where a value can't be cleared (`Queue.listed`)."""
        raise Unreadable("This scheduler's values are cleared, not restored.")

    @abstractmethod
    def to_reset(self, knob: str, queue: Queue, ours: Sequence[str]) -> List[str]:
        """Jobs to reset: those of the agent; every job with a value if only the agent uses the knob."""
