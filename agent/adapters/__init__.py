"""One scheduler a file, with the same surface, so that the loop knows none of them."""

from abc import abstractmethod
from typing import Dict, List, Optional, Sequence, Tuple

from agent.commands import Commands
from agent.records import Account, Finding, Queue
from agent.sending import Sent
from agent.shares import SetsShares

Config = Dict[str, str]


class Adapter(SetsShares):
    """What the loop asks of a scheduler. Raises everywhere: Unreadable where the scheduler gives no answer."""

    def __init__(self, commands: Commands) -> None:
        self.commands = commands

    @abstractmethod
    def names_of(self, account: Account) -> Dict[str, str]:
        """The account as a look-up names it, without empty names."""

    @abstractmethod
    def read_queue(self, knob: str, most_value: int) -> Queue: ...

    @abstractmethod
    def read_partitions(self) -> List[str]: ...

    @abstractmethod
    def read_config(self) -> Config: ...

    @abstractmethod
    def read_values(self) -> Optional[List[Dict[str, object]]]:
        """Shares, usage and factors as the scheduler itself has them; None: it has none to list."""

    @abstractmethod
    def version(self, config: Config) -> str: ...

    @abstractmethod
    def check(self, knob: str, config: Config) -> List[Finding]: ...

    @abstractmethod
    def apply(self, knob: str, due: Sequence[Tuple[str, int]]) -> Sent: ...

    @abstractmethod
    def hand_back(self, knob: str, jobs: Sequence[str]) -> Sent:
        """Resets jobs as if nobody had set them."""

    @abstractmethod
    def to_hand_back(self, knob: str, queue: Queue, ours: Sequence[str]) -> List[str]:
        """Of the scheduler's jobs those to reset: ours, and where the knob is nobody else's, every job with a value."""
