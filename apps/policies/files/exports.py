"""A revision as a file in any format, with a list of what the format has no place for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

from apps.accounts.actor import Actor
from apps.core.errors import FieldProblem, Invalid, NotAllowed
from apps.policies.access.scope import visible_entries
from apps.policies.files.remembered import remembered_of
from apps.policies.formats.base import Difference, Format, Remembered
from apps.policies.formats.registry import FORMATS, dropped, get_format, text_of, write_file
from apps.policies.formats.whole_shares import plain_word
from apps.policies.models import Policy
from apps.policies.selectors import get_policy, get_revision
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree

_LONGEST_CLUSTER = 128


@dataclass(frozen=True)
class Export:
    """One revision in one format."""

    format: Format
    tree: TreeColumns
    settings: PolicySettings
    against: str | None = None  # a file with the state of now
    remembered: Remembered | None = None  # from the last import

    @property
    def file_name(self) -> str:
        return f"{self.tree.policy_slug}-{self.tree.number}{self.format.suffix}"

    @property
    def tag(self) -> str:
        """Differs where the file would."""
        left = self.remembered
        what = "" if left is None else f"-{hashlib.sha256(f'{left.cluster} {left.text}'.encode()).hexdigest()[:12]}"
        return f"{self.tree.number}-{self.format.name}{what}"

    @cached_property
    def dropped(self) -> list[str]:
        """In words: what, of how many entries, and the first of them."""
        return dropped(self.format, self.tree)

    @cached_property
    def difference(self) -> Difference | None:
        """Against the state of now, where that was given."""
        if self.against is None or self.format.against is None:
            return None
        found = self.format.against(self.tree, self.against)
        cluster = "" if self.remembered is None else self.remembered.cluster
        if cluster and cluster != found.cluster:
            raise Invalid(
                f"The dump is of the cluster {found.cluster}, and the policy of {cluster}: send the dump of {cluster}, "
                f"or name the cluster {found.cluster}.",
                code="other_cluster",
                fields=[FieldProblem("cluster", f"is {found.cluster} in the dump")],
            )
        return found

    def pieces(self) -> Iterator[str]:
        if self.difference is not None:
            return self.difference.pieces()
        if self.remembered is not None and self.format.write_remembered is not None:
            return self.format.write_remembered(self.tree, self.remembered)
        return write_file(self.format, self.tree, self.settings)

    def text(self) -> str:
        return "".join(self.pieces())


def export_policy(
    *,
    policy_slug: str,
    format: str,
    moment: int | datetime | None = None,
    against: bytes | None = None,
    cluster: str = "",
    at: datetime,
    actor: Actor,
) -> Export:
    """For viewers who see all of it: an import of a partial file would archive entries. `moment`: a revision, or an
    instant. against: a file with the state of now, of which all but the shares stays. cluster: its name in the file, by
    default that of the last import.
    """
    found = get_format(format)
    policy = get_policy(slug=policy_slug, actor=actor)
    revision = get_revision(policy=policy, at=moment)
    tree = load_tree(policy, revision.number)
    if not visible_entries(policy=policy, tree=tree, actor=actor, at=at).all_visible:
        raise NotAllowed("You see a part of this policy only: ask for the tree of that part.", code="partial_view")
    settings = PolicySettings.from_stored(revision.settings)
    return make_export(policy, found, tree, settings, against=against, cluster=cluster, at=at, actor=actor)


def make_export(
    policy: Policy,
    format: Format,
    tree: TreeColumns,
    settings: PolicySettings,
    *,
    against: bytes | None = None,
    cluster: str = "",
    at: datetime,
    actor: Actor,
) -> Export:
    """Of a tree that the actor sees whole."""
    if against is not None and format.against is None:
        can = ", ".join(each.name for each in FORMATS.values() if each.against)
        raise Invalid(
            f"{format.name} can't be written against a file; {can} can.",
            fields=[FieldProblem("against", f"goes with {can}")],
        )
    if format.write_remembered is None:
        if cluster:
            raise Invalid(f"{format.name} names no cluster.", fields=[FieldProblem("cluster", "has no place in it")])
        return Export(format, tree, settings)
    text = None if against is None else text_of(against)
    last = remembered_of(policy, tree, at=at, actor=actor)
    if cluster:
        last = replace(last or Remembered(), cluster=_cluster(cluster))
    return Export(format, tree, settings, text, last)


def _cluster(name: str) -> str:
    if plain_word(name) != name or not name.isascii() or len(name) > _LONGEST_CLUSTER:
        message = "has letters, digits and ._@+- only, as Slurm's names"
        raise Invalid(f"cluster {name[:60]!r}: a name {message}.", fields=[FieldProblem("cluster", message)])
    return name
