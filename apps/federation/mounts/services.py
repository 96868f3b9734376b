"""Mount documents: preview one, trust its key once a manager has compared it, then fetch it on schedule."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from apps.accounts.actor import SYSTEM, Actor
from apps.accounts.entry_accounts import is_reserved
from apps.core import outbound
from apps.core.addresses import target_of
from apps.core.code_paths import command_name
from apps.core.errors import Conflict, FieldProblem, Invalid, NotFound
from apps.core.signing import BadDocument, PublicKey
from apps.federation import staleness
from apps.federation.documents.wire import PolicyDocument, PolicyLimits, read_policy
from apps.federation.fetch_requests import fetch_for_preview, sealed_token
from apps.federation.models import Mount
from apps.federation.mounts.application import apply_document
from apps.federation.publishing import own_name
from apps.mapping.changes import MOST_ASSIGNED, Assign, make_change
from apps.mapping.moves import Move, UnmappedUsage, moves_to_unmapped, usage_of_unmapped
from apps.policies.access.scope import Rights, Verb, administers_policies, administers_within_bounds
from apps.policies.models import ChangeSet, Policy, Revision
from apps.policies.publishing.direct import publish_operations
from apps.policies.selectors import get_policy
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.difference import mount_of
from apps.policies.tree.stored import load_tree
from apps.policies.tree.terms import MountedPublication

PREVIEW_S = 10.0
MOST_PREVIEWED = 200
_COMMON: Mapping[str, tuple[float, float]] = {
    "every_s": (10, 30 * 86_400),
    "max_age_s": (60, 366 * 86_400),
    "most_bytes": (1_024, 256 * 1024**2),
}
SETTING_BOUNDS: Mapping[str, tuple[float, float]] = {
    **_COMMON,
    "most_points": (0, 100),
    "most_entries": (1, 1_000_000),
    "most_levels": (1, 64),
}


@dataclass(frozen=True, slots=True)
class PreviewEntry:
    """A child of the root of a previewed document. shares: None for inherited ones."""

    name: str
    kind: str
    shares: float | None
    n_children: int


@dataclass(frozen=True)
class Preview:
    """The document at an address, before it is trusted: its key has to be compared over a separate channel.

    unmapped: usage that would be unmapped once it is mounted; None without an entry.
    """

    url: str
    key: PublicKey
    document: PolicyDocument
    unmapped: UnmappedUsage | None = None

    @property
    def n_entries(self) -> int:
        return len(self.document.tree)

    @property
    def n_levels(self) -> int:
        return len(self.document.tree.level_starts) - 2

    @property
    def name(self) -> str:
        """Name of the mounted root."""
        return self.document.tree.name[0]

    @property
    def entries(self) -> list[PreviewEntry]:
        """Children of the root, at most `MOST_PREVIEWED`."""
        tree = self.document.tree
        nodes = [(tree.node(i), len(tree.children(i))) for i in list(tree.children(0))[:MOST_PREVIEWED]]
        return [PreviewEntry(node.name, node.kind, node.shares, n_children) for node, n_children in nodes]


def preview(*, url: str, policy_slug: str, entry: str = "", token: str = "", at: datetime, actor: Actor) -> Preview:
    """Fetch and read a document, for a manager who may mount in the policy. Nothing is stored.

    entry: the path of the future mount; "" if unknown. token: issued by the other side for this reader.

    Raises:
        Refused, Unreachable, TooLarge, BadDocument: the address or its content, with a message for the manager.
        TooOften: this person already waits for several documents.
        NotFound: the actor may not mount anything here.
    """
    policy = get_policy(slug=policy_slug, actor=actor, scope="federation")
    if not (administers_within_bounds(actor) or Rights(policy, actor, at).at(Verb.MOUNT)):
        raise NotFound("There is nothing here that you may mount at.")
    place = _load_entry(policy, entry, actor, at) if entry else None
    limits = outbound.Limits(n_bytes=32 * 1024**2, total_s=PREVIEW_S, redirects=3)
    opened = fetch_for_preview(url, token, limits, actor)
    document = read_policy(opened.document, PolicyLimits())
    unmapped = None if place is None else unmapped_by_document(policy, place, document, at=at)
    return Preview(url, opened.key, document, unmapped)


@transaction.atomic
def make_mount(
    *,
    policy_slug: str,
    entry: str,
    url: str,
    issuer: str,
    publication: str,
    fingerprint: str,
    token: str = "",
    settings: Mapping[str, Any] | None = None,
    reason: str,
    at: datetime,
    actor: Actor,
) -> Mount:
    """Mount a publication at an entry (a path), under the key whose fingerprint was compared.

    The mount's own share stays local. The entry is marked immediately; the run that fetches its first document
    publishes it or holds it for review. token: issued by the other side for this reader; it is stored sealed and never
    shown again.

    Raises:
        NotAllowed, NotFound, Conflict, Invalid: the actor, the entry, an existing mount, settings out of range.
    """
    target_of(url)
    policy = get_policy(slug=policy_slug, actor=actor, scope="policies:write")
    uid = _load_entry(policy, entry, actor, at)
    if (settings or {}).get("keep_usage") and not may_have_accounts(load_tree(policy), uid):
        message = "needs an entry below the root that isn't a reserve"
        raise Invalid(f"keep_usage {message}.", fields=[FieldProblem("keep_usage", message)])
    if issuer == own_name():
        raise Invalid("This site is that authority: there is nothing to fetch.", code="mount_loop")
    if Mount.objects.filter(policy=policy, entry_uid=uid).exists():
        raise Conflict(f"Something is mounted at {entry} already: unmount it first.", code="mounted")
    _same_publication_once(policy, issuer, publication)
    operation = {"op": "mount", "entry": str(uid), "mount": MountedPublication(issuer, publication).to_json()}
    publish_operations(policy_slug=policy_slug, operations=[operation], reason=reason, at=at, actor=actor)
    made = Mount.objects.create(
        policy=policy,
        entry_uid=uid,
        url=url,
        issuer=issuer,
        publication=publication,
        fingerprint=clean_fingerprint(fingerprint),
        sealed_token=sealed_token(token),
        due_at=at,
        made_by=actor.user,
        made_at=at,
        **clean_settings(settings or {}),
    )
    details = {"url": url, "issuer": issuer, "publication": publication, "fingerprint": made.fingerprint}
    staleness.record_of(made, verb="federation.mounted", at=at, actor=actor, reason=reason, details=details)
    return made


@transaction.atomic
def unmount(*, mount_id: int, reason: str, at: datetime, actor: Actor) -> None:
    """End a mount; the entries below it become local as they are now."""
    mount = get_mount(mount_id=mount_id, actor=actor, at=at, lock=True)
    if load_tree(mount.policy).index_of_uid(mount.entry_uid) is not None:
        operation = {"op": "mount", "entry": str(mount.entry_uid), "mount": None}
        publish_operations(policy_slug=mount.policy.slug, operations=[operation], reason=reason, at=at, actor=actor)
    staleness.end_fallback(mount, at)
    staleness.record_of(mount, verb="federation.unmounted", at=at, actor=actor, reason=reason)
    mount.delete()


def get_mount(*, mount_id: int, actor: Actor, at: datetime, lock: bool = False) -> Mount:
    """Return a mount; NotFound unless the actor may mount at its entry."""
    mounts = Mount.objects.select_related("policy", "held")
    if lock:
        mounts = mounts.select_for_update(of=("self",), no_key=True)
    mount = mounts.filter(pk=mount_id).first()
    if mount is None or not may_mount_at(mount.policy, mount.entry_uid, actor, at):
        raise NotFound(f"There is no mount {mount_id}.")
    return mount


def list_mounts(*, actor: Actor, at: datetime) -> list[Mount]:
    """Mounts that the actor decides about, by policy and authority."""
    mounts = Mount.objects.select_related("policy", "held").order_by("policy__slug", "issuer", "publication", "id")
    return [mount for mount in mounts if may_mount_at(mount.policy, mount.entry_uid, actor, at)]


def clean_fingerprint(text: str) -> str:
    """Normalise a typed fingerprint: blanks, colons and capitals are ignored."""
    plain = "".join(text.split()).replace(":", "").replace("-", "").lower()
    if len(plain) != 64 or not all(character in "0123456789abcdef" for character in plain):
        message = f"must be 64 hexadecimal digits, as `{command_name('federation keys')}` prints them"
        raise Invalid(f"The fingerprint {message}.", fields=[FieldProblem("fingerprint", message)])
    return plain


def clean_settings(values: Mapping[str, Any], *, of_usage: bool = False) -> dict[str, Any]:
    """Check limits and interval of a mount or subscription; omitted values stay."""
    known = _COMMON if of_usage else SETTING_BOUNDS
    others = ("stale_action",) if of_usage else ("stale_action", "keep_usage")
    problems, read = [], {}
    for name, value in values.items():
        if name == "keep_usage" and not of_usage:
            if not isinstance(value, bool):
                problems.append(FieldProblem(name, "must be true or false"))
        elif name == "stale_action":
            if value not in Mount.StaleAction.values:
                problems.append(FieldProblem(name, f"must be one of {', '.join(Mount.StaleAction.values)}"))
        elif name not in known:
            problems.append(FieldProblem(name, f"is unknown; known are {', '.join([*known, *others])}"))
        else:
            least, most = known[name]
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            whole = name == "most_points" or float(value).is_integer() if is_number and value == value else False
            if not (is_number and whole and least <= value <= most):
                problems.append(FieldProblem(name, f"must be a number from {least:g} to {most:g}"))
        read[name] = value
    if problems:
        raise Invalid(f"{problems[0].where} {problems[0].message}.", fields=problems)
    return read


def _load_entry(policy: Policy, entry: str, actor: Actor, at: datetime) -> UUID:
    tree = load_tree(policy)
    i = tree.index_of_path(entry)
    if i is None or not may_mount_at(policy, tree.uuid(i), actor, at):
        raise NotFound(f"There is no entry {entry[:200]!r} in {policy.slug} that you may mount at.")
    return tree.uuid(i)


def _same_publication_once(policy: Policy, issuer: str, publication: str) -> None:
    """Reject a second mount of the same publication: its entries have uids, which may occur once in a tree."""
    other = Mount.objects.filter(policy=policy, issuer=issuer, publication=publication).first()
    if other is not None:
        message = f"{publication} of {issuer} is mounted in {policy.slug} already: an entry can be in a tree only once."
        raise Conflict(message, code="mounted")


def may_mount_at(policy: Policy, entry_uid: UUID, actor: Actor, at: datetime) -> bool:
    """Whether the actor may mount at the entry.

    This requires rights above it, where a mount's own share is decided.
    """
    if not actor.has_scope("federation") or not actor.reaches_policy(policy.slug):
        return False
    if administers_policies(actor, "federation"):
        return True
    tree = load_tree(policy)
    i = tree.index_of_uid(entry_uid)
    above: set[UUID] = set() if i is None else {tree.uuid(j) for j in tree.ancestors(i)}
    if not actor.reaches_entry(above | {entry_uid}):
        return False
    if administers_within_bounds(actor, "federation"):
        return True
    return bool(Rights(policy, actor, at).at(Verb.MOUNT) & above)


# A document replaces all entries below its mount. Accounts of removed entries are unmapped from then on, and their past
# usage isn't counted, unless another rule maps them or the mount keeps it.
def unmapped_by_document(policy: Policy, mount_uid: UUID, document: PolicyDocument, *, at: datetime) -> UnmappedUsage:
    """Accounts that would be unmapped after applying the document to the current tree.

    Empty if it can't be applied, for which the fetch reports the reason.
    """
    tree = load_tree(policy)
    try:
        applied = apply_document(tree, mount_uid, document, owned_elsewhere=lambda uids: ())
    except BadDocument:
        return UnmappedUsage()
    return (
        usage_of_unmapped(moves_to_unmapped(policy, tree, applied.tree), at=at) if applied.n_gone else UnmappedUsage()
    )


def keep_usage(policy: Policy, revision: Revision) -> None:
    """When a version is published, map the accounts of removed entries to their mount."""
    if revision.number < 2 or revision.change_set.origin != ChangeSet.Origin.MOUNT:
        return
    mounts = {mount.entry_uid: mount for mount in Mount.objects.filter(policy=policy, keep_usage=True)}
    if not mounts:
        return
    before, after = load_tree(policy, revision.number - 1), load_tree(policy, revision.number)
    for uid, accounts in _by_mount(before, moves_to_unmapped(policy, before, after)).items():
        if uid in mounts and may_have_accounts(after, uid):
            _keep(policy, mounts[uid], accounts, at=revision.published_at)


def may_have_accounts(tree: TreeColumns, uid: UUID) -> bool:
    """Whether accounts can count at the entry: not at a root or a reserve."""
    i = tree.index_of_uid(uid)
    return i is not None and i != 0 and not tree.is_reserve[i]


def _keep(policy: Policy, mount: Mount, accounts: Sequence[int], *, at: datetime) -> None:
    reason = f"{mount}: their entries were removed, and their usage is kept at the mount."
    for start in range(0, len(accounts), MOST_ASSIGNED):
        places = dict.fromkeys(accounts[start : start + MOST_ASSIGNED], mount.entry_uid)
        make_change(policy_slug=policy.slug, edit=Assign(places), reason=reason, version=None, at=at, actor=SYSTEM)


def _by_mount(before: TreeColumns, moves: Sequence[Move]) -> Mapping[UUID, list[int]]:
    accounts_by_mount: dict[UUID, list[int]] = defaultdict(list)
    for move in moves:
        mount = mount_of(before, move.before)
        if mount is not None and not is_reserved(move.key.namespace):
            accounts_by_mount[before.uuid(mount)].append(move.account)
    return accounts_by_mount
