"""What this site knows of its peers, as lines and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from apps.core.counts import counted
from apps.federation.conditions import age_of, condition_of, is_held
from apps.federation.models import Mount, Remote, Subscription
from apps.policies.tree.stored import load_tree


def status_json(mounts: list[Mount], subscriptions: list[Subscription], at: datetime) -> dict[str, Any]:
    """State of mounts and subscriptions as JSON. Ages are in seconds; null before the first successful fetch."""
    return {
        "at": at.isoformat(),
        "mounts": [
            {
                **_shared(mount, at),
                "publication": mount.publication,
                "version": mount.version,
                "applied_version": mount.applied_version,
                "held": mount.held_id,
            }
            for mount in mounts
        ],
        "subscriptions": [
            {
                **_shared(row, at),
                "feed": row.feed,
                "number": row.number,
                "capacity_cores": row.capacity_cores,
                "reported_capacity_cores": row.reported_capacity_cores,
                "held_hours": row.held_hours.count(),
                "running_held": row.running_held,
                "enforced_version": row.enforced_version,
            }
            for row in subscriptions
        ],
    }


def status_lines(mounts: list[Mount], subscriptions: list[Subscription], at: datetime) -> Iterator[str]:
    if not mounts and not subscriptions:
        yield "No mounts, and no subscriptions to usage."
    for mount in mounts:
        held = f"  change set {mount.held_id} is held for review" if mount.held_id else ""
        version = f"version {mount.applied_version} of {mount.version}"
        yield f"mount {_head(mount, at)}  {version}  {_age(mount, at)}{held}{_error_text(mount)}"
    for row in subscriptions:
        n_held = row.held_hours.count()
        held = f"  {counted(n_held, 'hour')} held" if n_held else ""
        held += "  running jobs held" if row.running_held else ""
        yield f"usage {_head(row, at)}  number {row.number}  {_age(row, at)}{held}{_error_text(row)}"


def _head(remote: Mount | Subscription, at: datetime) -> str:
    return f"{remote.pk}  {_path(remote)}  {remote}  {_condition(remote, at)}"


def _condition(remote: Mount | Subscription, at: datetime) -> str:
    return condition_of(remote, is_held=is_held(remote), at=at).value


def _shared(remote: Mount | Subscription, at: datetime) -> dict[str, Any]:
    return {
        "id": remote.pk,
        "policy": remote.policy.slug,
        "path": _path(remote),
        "issuer": remote.issuer,
        "url": remote.url,
        "state": remote.state,
        "condition": _condition(remote, at),
        "age_s": age_of(remote, at),
        "max_age_s": remote.max_age_s,
        "good_at": remote.good_at and remote.good_at.isoformat(),
        "fingerprint": remote.fingerprint,
        "expires_at": remote.expires_at and remote.expires_at.isoformat(),
        "n_failed": remote.n_failed,
        "error": {"code": remote.error_code, "message": remote.error} if remote.error_code else None,
    }


def _path(remote: Mount | Subscription) -> str:
    tree = load_tree(remote.policy)
    i = tree.index_of_uid(remote.entry_uid)
    return f"{remote.policy.slug}:{'(gone)' if i is None else tree.path(i)}"


def _age(remote: Remote, at: datetime) -> str:
    age_s = age_of(remote, at)
    if age_s is None:
        return "never fetched"
    for unit_s, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if age_s >= 2 * unit_s:
            return f"{age_s / unit_s:.0f} {unit} old"
    return f"{age_s:.0f} s old"


def _error_text(remote: Remote) -> str:
    return f"  {remote.error_code}: {remote.error}" if remote.error_code else ""
