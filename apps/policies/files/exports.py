"""A revision as a file in any format, what an import left of such a file, and shares beside a scheduler's own.

What an import left is no part of the policy, decides nothing, and is never read for its meaning; so it has no revision
of its own. It becomes active when the change set of its import is published; the file of an import that changes
nothing at once.

Shares beside a scheduler's: one association is known by account and user (Slurm), or by its path in the share tree
(Grid Engine), user "".
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, partial
from typing import NamedTuple

import zstandard
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce

from apps.accounts.actor import Actor
from apps.accounts.audit_log import record
from apps.core.errors import FieldProblem, Invalid, NotAllowed
from apps.policies.access.scope import Rights, rules_all, visible_entries
from apps.policies.formats import gridengine
from apps.policies.formats.base import Difference, Format, Remembered
from apps.policies.formats.registry import FORMATS, dropped, get_format, text_of, write_file
from apps.policies.formats.sacctmgr_against import Compared, fit_to, wanted_of
from apps.policies.formats.sacctmgr_dump import Dump, Line
from apps.policies.formats.slurm_tree import slurm_shares
from apps.policies.formats.whole_shares import plain_word
from apps.policies.models import ChangeSet, Grant, ImportedFile, Policy
from apps.policies.selectors import get_policy, get_revision
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree

# --- What an import left ----------------------------------------------------------------------------------------------
MOST_CHARACTERS = 32 * 2**20  # of a file; of a longer one only the cluster is remembered
_READ, _WRITE = "policies:read", "policies:write"


def remembered_of(policy: Policy, tree: TreeColumns, *, at: datetime, actor: Actor) -> Remembered | None:
    """What exports use. The file is for those who may publish the whole policy, the cluster's name for all."""
    found = _active(policy).first()
    if found is None:
        return None
    if not found.text or not _may_publish_all(policy, tree, actor, at, _READ):
        return Remembered(found.cluster)
    text = unpacked(bytes(found.text))
    number = found.number if found.change_set is None else found.change_set.revision.number
    return Remembered(found.cluster, text, load_tree(policy, number))


def remember_file(
    policy: Policy, left: Remembered, tree: TreeColumns, *, change_set: ChangeSet | None, at: datetime, actor: Actor
) -> bool:
    """Keep it with the change set of its import (None: nothing changed, so it is active now).

    Not of an actor who can't publish the whole policy: who loads an export into Slurm trusts what the file says.
    tree: that of the head. Returns whether it is kept.
    """
    if not _may_publish_all(policy, tree, actor, at, _WRITE):
        return False
    text = left.text if len(left.text) <= MOST_CHARACTERS else ""
    digest = hashlib.sha256(text.encode()).hexdigest()
    last = _active(policy).first()
    if last is not None and (last.cluster, last.digest) == (left.cluster, digest) and change_set is None:
        return True
    with transaction.atomic():
        ImportedFile.objects.create(
            policy=policy,
            change_set=change_set,
            number=policy.head_number,
            cluster=left.cluster,
            text=packed(text) or b"",
            digest=digest,
            created_at=at,
        )
        details = {"cluster": left.cluster, "n_bytes": len(text.encode()), "sha256": digest}
        if change_set is not None:
            details["change_set"] = change_set.pk
        event = partial(record, actor=actor, at=at, policy_slug=policy.slug, details=details)
        event(verb="policy.file_kept", subject=left.cluster or "a file")
        _forget_superseded(policy)
    return True


def packed(text: str) -> bytes | None:
    """None of a text that is empty, or too long to be kept."""
    return zstandard.ZstdCompressor(level=3).compress(text.encode()) if 0 < len(text) <= MOST_CHARACTERS else None


def unpacked(packed_text: bytes) -> str:
    return zstandard.ZstdDecompressor().decompress(packed_text, max_output_size=4 * MOST_CHARACTERS).decode()


def _active(policy: Policy) -> QuerySet[ImportedFile]:
    """Newest first: by the revision since which each is active."""
    is_active = Q(change_set=None) | Q(change_set__state=ChangeSet.State.PUBLISHED)
    since = Coalesce("change_set__revision__number", F("number"))
    return ImportedFile.objects.filter(is_active, policy=policy).order_by(since.desc(), "-pk")


def _forget_superseded(policy: Policy) -> None:
    active = list(_active(policy).values_list("pk", flat=True))
    withdrawn = Q(change_set__state=ChangeSet.State.WITHDRAWN)
    ImportedFile.objects.filter(Q(pk__in=active[1:]) | withdrawn, policy=policy).delete()


def _may_publish_all(policy: Policy, tree: TreeColumns, actor: Actor, at: datetime, scope: str) -> bool:
    return rules_all(actor, scope) or tree.uuid(0) in Rights(policy, actor, at).at(Grant.Verb.PUBLISH)


# --- Exports ----------------------------------------------------------------------------------------------------------
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


# --- Beside a scheduler's own shares ----------------------------------------------------------------------------------
class ListedAssociation(NamedTuple):
    """shares: a whole number, or "parent". partition: "" of all."""

    group: str
    user: str
    partition: str
    parent: str
    shares: str


class WantedShares(NamedTuple):
    """fitted: the tree with names and whole shares as the scheduler can have them. shares: with the row of the tree."""

    fitted: TreeColumns
    shares: dict[tuple[str, str], tuple[str, int]]
    notes: tuple[str, ...]


def shares_for_slurm(tree: TreeColumns, cluster: str, listed: Iterable[ListedAssociation]) -> WantedShares:
    """notes: what shares can't bring about, as in a comparison with a dump."""
    dump = Dump(cluster, list(_lines(listed)))
    compared = Compared(dump, tree, fit_to(tree, dump))
    wanted = {(one.key.account, one.key.user): (one.shares, one.row) for one in wanted_of(compared.fitted).values()}
    return WantedShares(compared.fitted, wanted, compared.notes)


def shares_for_gridengine(tree: TreeColumns, listed: Iterable[ListedAssociation]) -> WantedShares:
    fitted = gridengine.fit_to(tree, {row.group: row.shares for row in listed})
    wanted = {(path, ""): (shares, row) for path, shares, row in gridengine.nodes_of(fitted)}
    return WantedShares(fitted, wanted, ())


def _lines(listed: Iterable[ListedAssociation]) -> Iterator[Line]:
    for row in listed:
        word, name = ("User", row.user) if row.user else ("Account", row.group)
        above = row.group if row.user else row.parent
        yield Line("", word, name, above, row.partition, slurm_shares(row.shares))
