"""One adapter a scheduler, with a common interface for the loop."""

from abc import abstractmethod
from typing import Dict, List, Optional, Sequence, Tuple

from agent.commands import Commands
from agent.records import Asked, Finding, Queue
from agent.sending import Sent
from agent.shares import SetsShares

Config = Dict[str, str]


class Adapter(SetsShares):
    """Interface of an adapter. All methods raise Unreadable if the scheduler gives no valid output."""

    def __init__(self, commands: Commands) -> None:
        self.commands = commands

    @abstractmethod
    def names_of(self, asked: Asked) -> Dict[str, str]:
        """The account as named in a look-up, without empty names."""

    @abstractmethod
    def read_queue(self, knob: str, most_value: int) -> Queue: ...

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

    @abstractmethod
    def to_reset(self, knob: str, queue: Queue, ours: Sequence[str]) -> List[str]:
        """Jobs to reset: those of the agent; every job with a value if only the agent uses the knob."""
