"""Where an entry's terms come from, as pages say it beside the numbers."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.urls import reverse
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.dashboard.federation import presenters as federation_lines
from apps.dashboard.shell import presentation
from apps.dashboard.shell.lines import Origin
from apps.dashboard.shell.presentation import Keyed
from apps.federation.grid.peers import Place
from apps.federation.mounts.selectors import Provenance, load_provenance, provenance_of
from apps.federation.staleness import Condition
from apps.policies.models import Policy
from apps.policies.selectors import get_policy
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree

_QUIET = (Condition.FRESH, Condition.LATE, Condition.NEW, Condition.HELD)  # what is in force is as its authority says


_NOTHING = Keyed("", "")


def origins_of(policy: Policy, tree: TreeColumns, *, at: datetime, is_past: bool = False) -> dict[UUID, Origin]:
    """Of each mount of a tree, by the uid of its entry; for rows, which lead to the entry and not to the mount.

    is_past: a tree of then, of which nobody knows how old its documents were.
    """
    if is_past:
        return {tree.uuid(i): _of_then(told.issuer, tree.path(i)) for i, told in tree.mount.items()}
    found = load_provenance(policy, tree, at=at)
    return {uid: _origin(each, "") for uid, each in found.items()}


def origin_of(*, policy_slug: str, uid: UUID, at: datetime, actor: Actor) -> Origin | None:
    """Of an entry that the actor sees: what it, or an entry above it, is mounted from."""
    policy = get_policy(slug=policy_slug, actor=actor)
    tree = load_tree(policy)
    i = tree.index_of_uid(uid)
    if i is None or not tree.mount:
        return None
    found = provenance_of(load_provenance(policy, tree, at=at), tree, i)
    if found is None:
        return None
    may_open = found.mount_id is not None and Place(policy, at, actor).decides(found.entry_uid)
    return _origin(found, reverse("dashboard:federation-mount", args=[found.mount_id]) if may_open else "")


def words_of(found: Provenance) -> str:
    """From vo-a.example, version 41, 3 min old."""
    if not found.version:
        return _("from %(name)s, nothing yet") % {"name": found.issuer}
    said = {"name": found.issuer, "n": presentation.count(found.version)}
    if found.age_s is None:
        return _("from %(name)s, version %(n)s") % said
    return _("from %(name)s, version %(n)s, %(age)s old") % {**said, "age": presentation.age(found.age_s)}


def _of_then(issuer: str, path: str) -> Origin:
    words = _("from %(name)s") % {"name": issuer}
    return Origin(words=words, short=issuer, at=path, url="", standing=None, meanwhile=_NOTHING)


def _origin(found: Provenance, url: str) -> Origin:
    is_old = found.condition in (Condition.STALE, Condition.EXPIRED)
    return Origin(
        words=words_of(found),
        short=found.issuer,
        at=found.entry_path,
        url=url,
        standing=None if found.condition in _QUIET else federation_lines.STANDINGS[found.condition],
        meanwhile=federation_lines.meanwhile(found.acts) if is_old else _NOTHING,
        version=found.version,
        age_s=found.age_s,
    )
