"""The sample grid while it is loaded, as plug-ins see it that add to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.cli.sample.grid import Grid


@dataclass(frozen=True, slots=True)
class SampleSite:
    """people: by user name. uid_of: uid of a current entry by its path. at: when the sample is loaded."""

    grid: Grid
    people: Mapping[str, User]
    uid_of: Callable[[str], UUID]
    at: datetime

    def actor(self, username: str) -> Actor:
        return Actor(user=self.people[username], via="command")
