"""Origins: the authority, version and age of mounted entries, for rows and pages of other features."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.urls import reverse
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.federation.conditions import Condition
from apps.federation.grid.peers import MountablePolicy
from apps.federation.mounts.selectors import Provenance, load_provenance, provenance_of
from apps.policies.models import Policy
from apps.policies.selectors import get_policy
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree
from apps.priorities.sentences import numbers
from apps.web.shell import presentation
from apps.web.shell.lines import Origin
from apps.web.shell.presentation import KeyedText
from apps.web.texts.conditions import STANDINGS, meanwhile

# Conditions in which the active version is still valid, so that rows show no badge.
_QUIET = (Condition.FRESH, Condition.LATE, Condition.NEW, Condition.HELD)


_NOTHING = KeyedText("", "")


def origins_of(policy: Policy, tree: TreeColumns, *, at: datetime, is_past: bool) -> dict[UUID, Origin]:
    """Origin of each mounted entry of a tree by its uid, for rows, which link to the entry rather than the mount.

    is_past: whether the tree is one of the past, for which the age of documents is unknown.
    """
    if is_past:
        return {tree.uuid(i): _past_origin(mount.issuer, tree.path(i)) for i, mount in tree.mount.items()}
    provenances = load_provenance(policy, tree, at=at)
    return {uid: _origin(each, "") for uid, each in provenances.items()}


def origin_of(*, policy_slug: str, uid: UUID, at: datetime, actor: Actor) -> Origin | None:
    """Origin of an entry that the actor sees, if it or an ancestor is mounted; else None."""
    policy = get_policy(slug=policy_slug, actor=actor)
    tree = load_tree(policy)
    i = tree.index_of_uid(uid)
    if i is None or not tree.mount:
        return None
    provenance = provenance_of(load_provenance(policy, tree, at=at), tree, i)
    if provenance is None:
        return None
    may_open = provenance.mount_id is not None and MountablePolicy(policy, at, actor).decides(provenance.entry_uid)
    return _origin(provenance, reverse("pages:federation-mount", args=[provenance.mount_id]) if may_open else "")


def words_of(provenance: Provenance) -> str:
    """Issuer, version and age of a mounted document, such as “from vo-a.example, Version 41, 3 min”."""
    if not provenance.version:
        return _("from %(name)s") % {"name": provenance.issuer}
    parts = [
        _("from %(name)s") % {"name": provenance.issuer},
        _("Version %(n)s") % {"n": numbers.count(provenance.version)},
    ]
    return ", ".join(parts if provenance.age_s is None else [*parts, presentation.age(provenance.age_s)])


def _past_origin(issuer: str, path: str) -> Origin:
    words = _("from %(name)s") % {"name": issuer}
    return Origin(words=words, short=issuer, at=path, url="", standing=None, meanwhile=_NOTHING)


def _origin(provenance: Provenance, url: str) -> Origin:
    is_old = provenance.condition in (Condition.STALE, Condition.EXPIRED)
    return Origin(
        words=words_of(provenance),
        short=provenance.issuer,
        at=provenance.entry_path,
        url=url,
        standing=None if provenance.condition in _QUIET else STANDINGS[provenance.condition],
        meanwhile=meanwhile(provenance.acts) if is_old else _NOTHING,
        version=provenance.version,
        age_s=provenance.age_s,
    )
