"""Input records of the services that write policies, filled by pages, REST and commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apps.policies.models import ChangeSet, Policy
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns

UNSET: Any = object()


@dataclass(frozen=True, kw_only=True)
class NewChangeSet:
    """A draft to be created. base_revision: None is the head. asks: the entry (uid or path) that a request is for."""

    operations: Sequence[Mapping[str, Any]]
    base_revision: int | None = None
    reason: str = ""
    effective_at: datetime | None = None
    origin: str = ChangeSet.Origin.HAND
    asks: str | None = None


@dataclass(frozen=True, kw_only=True)
class ChangeSetEdit:
    """Fields of a change set to be replaced; None, or UNSET of `effective_at`, leaves them."""

    operations: Sequence[Mapping[str, Any]] | None = None
    base_revision: int | None = None
    reason: str | None = None
    effective_at: datetime | None = UNSET


@dataclass(frozen=True, kw_only=True)
class NewTree:
    """A whole tree with its settings, to replace that of `base_revision`."""

    tree: TreeColumns
    settings: PolicySettings
    base_revision: int
    reason: str
    origin: str


@dataclass(frozen=True, kw_only=True)
class PolicyDetails:
    """Optional fields of a new policy."""

    visibility: str = Policy.Visibility.PATH
    description: str = ""
    is_sample: bool = False
