"""A policy as a file, of any revision, with a list of what the format has no place for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from apps.accounts.actor import Actor
from apps.core.errors import NotAllowed
from apps.policies.access.scope import visible_entries
from apps.policies.formats.base import Format
from apps.policies.formats.registry import dropped, get_format, write_file
from apps.policies.selectors import get_policy, get_revision
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree


@dataclass(frozen=True)
class Export:
    """One revision in one format."""

    format: Format
    tree: TreeColumns
    settings: PolicySettings

    @property
    def file_name(self) -> str:
        return f"{self.tree.policy_slug}-{self.tree.number}{self.format.suffix}"

    @cached_property
    def dropped(self) -> list[str]:
        """In words: what, of how many entries, and the first of them."""
        return dropped(self.format, self.tree)

    def pieces(self) -> Iterator[str]:
        return write_file(self.format, self.tree, self.settings)

    def text(self) -> str:
        return "".join(self.pieces())


def export_policy(
    *, policy_slug: str, format: str, moment: int | datetime | None = None, at: datetime, actor: Actor
) -> Export:
    """For viewers who see all of it: an import of a partial file would archive entries. `moment`: a revision, or an
    instant.
    """
    found = get_format(format)
    policy = get_policy(slug=policy_slug, actor=actor)
    revision = get_revision(policy=policy, at=moment)
    tree = load_tree(policy, revision.number)
    if not visible_entries(policy=policy, tree=tree, actor=actor, at=at).all_visible:
        raise NotAllowed("You see a part of this policy only: ask for the tree of that part.", code="partial_view")
    return Export(found, tree, PolicySettings.from_stored(revision.settings))
