"""Documents of other sites: only BadDocument and TooLarge; what is read, written and read again is the same."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import timedelta
from typing import Any
from uuid import UUID

import numpy as np

from apps.core.canonical import canonical, read_canonical
from apps.core.errors import DomainError
from apps.core.signing import SigningKey, open_document, sign_document
from apps.federation.documents.trust import TrustedState, check_document
from apps.federation.documents.wire import Head, PolicyDocument, PolicyLimits, read_policy, write_policy
from apps.federation.documents.wire_usage import read_usage, write_usage
from apps.federation.usage_feeds.usage_ingest import TrustedFeed, check_usage_document
from apps.policies.files.document import read_document
from tests.instants import AT

KEY = SigningKey(bytes(range(32)))
_ISSUER, _NAME = "vo-a.example", "lattice"
_LIMITS = PolicyLimits(entries=1_000, levels=8)
_UID = "00000000-0000-4000-8000-00000000000{}"


def sealed(data: bytes) -> bool:
    """Two lines as they come from another site, of an unknown key."""
    try:
        opened = open_document(data, trusted=None)
    except DomainError:
        return False
    assert canonical(opened.document) == data.split(b"\n")[0]
    return True


def canonical_json(data: bytes) -> bool:
    try:
        document = read_canonical(data, "line 1")
    except DomainError:
        return False
    assert canonical(document) == data, "two spellings of one value are taken"
    return True


def policy(data: bytes) -> bool:
    """A document that its site has signed, whatever is in it."""
    signed = _signed(data)
    if signed is None:
        return False
    trusted = TrustedState(_ISSUER, _NAME, KEY.public.fingerprint)
    try:
        accepted = check_document(
            signed, trusted, own_name="own.example", publishes=True, names_above=(), limits=_LIMITS, at=AT
        )
    except DomainError:
        return False
    document = accepted.document
    again = read_policy(_plain(write_policy(document.head, document.tree, 0)), _LIMITS)
    assert again.head == document.head
    assert _entries(again) == _entries(document)
    return True


def usage(data: bytes) -> bool:
    """A feed that its site has signed, whatever is in it."""
    signed = _signed(data)
    if signed is None:
        return False
    try:
        document = check_usage_document(signed, TrustedFeed(_ISSUER, _NAME, KEY.public.fingerprint), at=AT).document
    except DomainError:
        return False
    again = read_usage(_plain(write_usage(document)))
    assert again.head == document.head
    _assert_same(again, document, ("entries", "hours", "row_hour", "row_entry", "amounts"))
    assert (again.running is None) == (document.running is None)
    if again.running is not None and document.running is not None:
        _assert_same(again.running, document.running, [each.name for each in fields(document.running)])
    return True


def _signed(data: bytes) -> bytes | None:
    try:
        document = json.loads(data)
        return sign_document(document, KEY) if isinstance(document, dict) else None
    except (ValueError, RecursionError, DomainError):
        return None


def _plain(document: Mapping[str, Any]) -> dict[str, Any]:
    """As the other site would get it: through its canonical bytes."""
    return read_canonical(canonical(document), "line 1")


def _entries(document: PolicyDocument) -> list[tuple[Any, ...]]:
    tree = document.tree
    return [(tree.path(i), tree.node(i)) for i in range(len(tree))]


def _assert_same(one: object, other: object, names: Sequence[str]) -> None:
    for name in names:
        here, there = np.asarray(getattr(one, name)), np.asarray(getattr(other, name))
        assert np.array_equal(here, there, equal_nan=here.dtype.kind == "f"), name


def seeds_of_policies() -> list[bytes]:
    people = [{"uid": _UID.format(4), "name": "kim", "kind": "user", "shares": 3}]
    groups = [
        {"uid": _UID.format(2), "name": "a", "shares": 2.5, "scope": "global", "children": people},
        {"uid": _UID.format(3), "name": "b", "kind": "project", "shares": "parent", "children": []},
    ]
    tree = read_document({"root": {"uid": _UID.format(1), "name": _NAME, "children": groups}}).tree
    head = Head(_ISSUER, _NAME, 2, "ab" * 32, AT, AT + timedelta(days=7), ("project.example",))
    return [canonical(write_policy(head, tree, 0)), sign_document(write_policy(head, tree, 0), KEY)]


def seeds_of_feeds() -> list[bytes]:
    state = {"number": 4, "mark": "0123456789abcdef" * 2}
    hour = AT.replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)
    document: dict[str, Any] = {
        "format": "fairshare-usage/1",
        **{"issuer": _ISSUER, "feed": _NAME, "root": _UID.format(1), "number": 4, "since": 0, "more": False},
        **{"newest": state, "seen": None, "issued_at": f"{AT:%Y-%m-%dT%H:%M:%SZ}"},
        "expires_at": f"{AT + timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}",
        **{"site": "C2", "capacity": {"cores": 1000}, "enforces": None},
        "entries": [str(UUID(_UID.format(number))) for number in (1, 2)],
        "hours": [{"hour": f"{hour:%Y-%m-%dT%H:%M:%SZ}", "entry": [0, 1], "cpu_s": [3600, 7.5], "jobs": [1, 2]}],
        "running": {"entry": [1], "start": [AT.timestamp() - 600], "cpus": [4], "requested_s": [None]},
    }
    return [canonical(document)]
