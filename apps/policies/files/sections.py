"""Lists that plug-ins keep in policy documents beside the tree, such as allocations, by their key in the document.

An export of the head has them. An import turns them into operations of its change set, behind those of the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apps.accounts.actor import Actor
from apps.core.plugins import keyed
from apps.policies.models import Policy
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns


@dataclass(frozen=True, kw_only=True)
class SectionImport:
    """A section of a document with the tree and the settings that the document leads to."""

    policy: Policy
    tree: TreeColumns
    settings: PolicySettings
    values: Any
    at: datetime
    actor: Actor


@dataclass(frozen=True)
class DocumentSection:
    """values: what an export of the policy's head holds, as JSON. operations: what an import adds to its change set.

    `operations` raises Invalid with all problems.
    """

    values: Callable[[Policy, TreeColumns], Sequence[Mapping[str, Any]]]
    operations: Callable[[SectionImport], list[dict[str, Any]]]


def document_sections() -> Mapping[str, DocumentSection]:
    return keyed("document_sections")


def section_values(policy: Policy, tree: TreeColumns) -> dict[str, Sequence[Mapping[str, Any]]]:
    """What an export of the head holds beside the tree; sections without values are left out."""
    values = {key: section.values(policy, tree) for key, section in document_sections().items()}
    return {key: each for key, each in values.items() if each}
