"""Documents that another side serves, by the real path: fetched over HTTP, checked, applied.

Whatever is wrong with one, it is refused as a whole with its place named, and the current tree stays to the byte.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.conf import LazySettings

from apps.accounts.actor import COMMAND
from apps.core.canonical import MOST_NESTS
from apps.core.signing import SigningKey, canonical, sign_document
from apps.federation.fetch_schedule import request_due_fetches
from apps.federation.models import Fetch, Mount
from apps.federation.publishing import make_publication
from apps.policies.models import Policy, Revision
from apps.policies.tree.columns import Node
from apps.policies.tree.stored import load_tree
from apps.runs.services import work_due_runs
from tests.federation.fetches import look_at
from tests.federation.other_side import KEY, P1, ROOT, OtherSide, projects, serving
from tests.federation.worlds import add_entry, mount_side
from tests.instants import AT

HOUR = timedelta(hours=1)
Break = Callable[[dict[str, Any]], object]


@dataclass(frozen=True)
class Bad:
    """code: of the refusal. place: where, which, or how much, as its message has to say."""

    code: str
    place: str
    change: Break | None = None  # of the document, before it is signed
    raw: Callable[[bytes], bytes] | None = None  # of the signed bytes of a good one
    body: Callable[[bytes], bytes] | None = None  # of the document's bytes, signed as they are


def child(document: dict[str, Any], at: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = document["root"]["children"][at]
    return found


def signed(body: bytes, key: SigningKey = KEY) -> bytes:
    """Whatever the bytes are, under a signature that holds."""
    seal = sign_document({}, key).split(b"\n")[1]
    data = json.loads(seal)
    data["signature"] = base64.b64encode(key.sign(body)).decode()
    return body + b"\n" + canonical(data) + b"\n"


def _entry(name: str, n: int, **more: Any) -> dict[str, Any]:
    return {"uid": str(UUID(int=0x500 + n)), "name": name, "kind": "project", "shares": 1, "children": [], **more}


def _add(document: dict[str, Any], *entries: dict[str, Any]) -> None:
    document["root"]["children"] += entries


def _deep(document: dict[str, Any]) -> None:
    at = document["root"]
    for n in range(70):
        at["children"] = [_entry(f"d{n}", n)]
        at = at["children"][0]


def _stranger(path: str) -> Break:
    def change(document: dict[str, Any]) -> None:
        tree = load_tree(Policy.objects.get(slug="grid"))
        at = tree.index_of_path(path)
        assert at is not None
        child(document, 1)["uid"] = str(tree.uuid(at))

    return change


BAD = {
    "shares below zero": Bad("bad_document", "/P-A1: shares", lambda d: child(d).update(shares=-1)),
    "shares that are text": Bad("bad_document", "/P-A1: shares", lambda d: child(d).update(shares="lots")),
    "shares that are true": Bad("bad_document", "/P-A1: shares", lambda d: child(d).update(shares=True)),
    "shares beyond measure": Bad("bad_document", "/P-A1: shares", lambda d: child(d).update(shares=2**52)),
    "two of one name": Bad("bad_document", "children[3]", lambda d: _add(d, _entry("P-A1", 1))),
    "one name in two spellings": Bad(
        "bad_document", "children[4]", lambda d: _add(d, _entry("caf\u00e9", 1), _entry("cafe\u0301", 2))
    ),
    "a name with markup": Bad(
        "bad_document", "<img src=x onerror=alert(1)>", lambda d: child(d).update(name="<img src=x onerror=alert(1)>")
    ),
    "a name that turns around": Bad("bad_document", "U+202E", lambda d: child(d).update(name="abc\u202edef")),
    "a name with a path": Bad("bad_document", "'/'", lambda d: child(d).update(name="../VO-B")),
    "a name that is no text": Bad("bad_document", "children[0]", lambda d: child(d).update(name={"a": 1})),
    "a name without end": Bad("bad_document", "100000", lambda d: child(d).update(name="x" * 100_000)),
    "a name that is empty": Bad("bad_document", "children[0]", lambda d: child(d).update(name="")),
    "no uid": Bad("bad_document", "/P-A1", lambda d: child(d).pop("uid")),
    "one uid twice": Bad("bad_document", "uid", lambda d: child(d, 1).update(uid=child(d)["uid"])),
    "a uid that is none": Bad("bad_document", "/P-A1: uid", lambda d: child(d).update(uid="x" * 36)),
    "the uid of a local entry": Bad("foreign_uid", "/VO-B", _stranger("/VO-B")),
    "the uid of the local root": Bad("foreign_uid", "/", _stranger("/")),
    "the uid of the mount": Bad("foreign_uid", "/P-A2", _stranger("/vo-a-here")),
    "the uid of another subtree's leaf": Bad("foreign_uid", "/VO-A/P-A1/anna", _stranger("/VO-A/P-A1/anna")),
    "a lock": Bad("bad_document", "locked", lambda d: child(d).update(locked=True)),
    "members' rules": Bad(
        "bad_document", "members", lambda d: child(d).update(members=[{"kind": "glob", "pattern": "*", "shares": 1}])
    ),
    "a mount of its own": Bad(
        "bad_document", "mount", lambda d: child(d).update(mount={"issuer": "x", "publication": "y"})
    ),
    "sources of ours": Bad("bad_document", "sources", lambda d: child(d).update(scope="local", sources=["slurm"])),
    "shares for the mount": Bad("bad_document", "root.shares", lambda d: d["root"].update(shares=99)),
    "a key nobody knows": Bad("bad_document", "surprise", lambda d: d.update(surprise=1)),
    "a key of an entry nobody knows": Bad("bad_document", "/P-A1: surprise", lambda d: child(d).update(surprise=1)),
    "a key that no database keeps": Bad("bad_document", "x\ufffdy", lambda d: d.update({"x\0y": 1})),
    "a key of an entry that no database keeps": Bad(
        "bad_document", "/P-A1: x\ufffd\ufffdy", lambda d: child(d).update({"x\0\u202ey": 1})
    ),
    "a key without end": Bad("bad_document", "xxx", lambda d: d.update({"x" * 1_000_000: 1})),
    "children that are an object": Bad("bad_document", "children", lambda d: d["root"].update(children={"a": 1})),
    "a child that is a number": Bad("bad_document", "children[", lambda d: d["root"]["children"].append(7)),
    "another format": Bad("bad_document", "format", lambda d: d.update(format="fairshare-policy/9")),
    "a version below one": Bad("bad_document", "version", lambda d: d.update(version=0)),
    "a version that is half": Bad("bad_document", "version", lambda d: d.update(version=2.5)),
    "a time that is none": Bad("bad_document", "issued_at", lambda d: d.update(issued_at="yesterday")),
    "a time that has no form in some zones": Bad(
        "bad_document", "expires_at", lambda d: d.update(expires_at="9999-12-31T23:59:59Z")
    ),
    "seventy levels": Bad("bad_document", "64", _deep),
    "another authority": Bad("other_publication", "vo-z", lambda d: d.update(issuer="vo-z.example")),
    "a circle": Bad("mount_loop", "site.example", lambda d: d.update(issuers=["site.example"])),
    "expired": Bad(
        "expired", "2026", lambda d: d.update(issued_at="2026-11-01T00:00:00Z", expires_at="2026-11-02T00:00:00Z")
    ),
    "issued ahead": Bad(
        "issued_ahead",
        "43200 s",
        lambda d: d.update(issued_at="2026-11-21T00:00:00Z", expires_at="2026-12-01T00:00:00Z"),
    ),
    "older": Bad("older_version", "version", lambda d: d.update(version=1, previous=None)),
    "forked": Bad("forked", "version", lambda d: d.update(previous="ab" * 32)),
    "a hundred thousand nested arrays": Bad(
        "bad_document", "200", body=lambda _: b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    ),
    "NaN": Bad("bad_document", "line 1 column", body=lambda b: b.replace(b'"shares":50', b'"shares":NaN')),
    "1e999": Bad("bad_document", "line 1 column", body=lambda b: b.replace(b'"shares":50', b'"shares":1e999')),
    "a number of 5,000 digits": Bad(
        "bad_document", "line 1 column", body=lambda b: b.replace(b":50", b":" + b"9" * 5000)
    ),
    "one key twice": Bad("not_canonical", "byte", body=lambda b: b.replace(b'{"expires', b'{"expires_at":1,"expires')),
    "blanks": Bad("not_canonical", "byte", body=lambda b: b.replace(b",", b", ", 1)),
    "a number in another spelling": Bad("not_canonical", "byte", body=lambda b: b.replace(b":50", b":5e1")),
    "half a character": Bad("bad_document", "line 1 column", body=lambda b: b.replace(b"P-A1", b"\\ud800")),
    "no UTF-8": Bad("bad_document", "line 1 column", body=lambda b: b.replace(b"P-A1", b"\xff\xfe")),
    "a list": Bad("bad_document", "no object", body=lambda _: b"[1]"),
    "nothing": Bad("bad_document", "two lines", raw=lambda _: b""),
    "a page": Bad("bad_document", "two lines", raw=lambda _: b"<html><script>alert(1)</script>"),
    "three lines": Bad("bad_document", "two lines", raw=lambda data: data + b"{}\n"),
    "a changed byte": Bad("bad_signature", "changed", raw=lambda data: data.replace(b"P-A2", b"P-X2")),
    "a seal without end": Bad(
        "bad_document", "line 2", raw=lambda data: data.split(b"\n")[0] + b"\n" + b"[" * 1_000_000 + b"\n"
    ),
    "too many bytes": Bad("answer_too_large", "33554432 bytes", raw=lambda _: b"x" * 40 * 1024**2),
}


@pytest.fixture
def settled(vo: OtherSide, mounted: Mount) -> OtherSide:
    """Version 2 is active, version 1 outdated. The site also publishes, so a document could close a loop."""
    Mount.objects.update(most_points=100)
    make_publication(policy_slug="grid", entry="/VO-B", name="vo-b", at=AT, actor=COMMAND)
    return vo


@pytest.fixture
def second(vo_second_version: object, vo: OtherSide) -> OtherSide:
    """As `settled`, and the second version is applied."""
    return vo


def _active() -> tuple[bytes, int]:
    revision = Revision.objects.order_by("-number")[0]
    return bytes(revision.tree), revision.number


REFUSED_ALIKE = [name for name, bad in BAD.items() if bad.code == "bad_document"]
DEEP = {*REFUSED_ALIKE} - {*REFUSED_ALIKE[::3]}


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.deep if name in DEEP else ()) for name in BAD])
@pytest.mark.fault("F23")
@pytest.mark.paper("4.62")
def test_an_invalid_document_is_rejected_and_the_last_valid_one_stays(
    name: str, second: OtherSide, mounted: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = BAD[name]
    assert mounted.version == 2
    good = second.publish(projects(p1=50))
    body = good.split(b"\n")[0]
    if bad.change is not None:
        document = json.loads(body)
        bad.change(document)
        second.serves = signed(canonical(document))
    elif bad.body is not None:
        changed = bad.body(body)
        assert changed != body
        second.serves = signed(changed)
    elif bad.raw is not None:
        second.serves = bad.raw(good)
    before, trusted = _active(), (mounted.version, mounted.digest, mounted.fingerprint)
    found = look_at(mounted, monkeypatch, AT)
    assert (found.outcome, found.code) == ("refused", bad.code), found.message
    assert bad.place in found.message, found.message
    assert len(found.message) <= 2_000
    assert found.message.isprintable()
    assert _active() == before
    assert (mounted.version, mounted.digest, mounted.fingerprint) == trusted
    assert mounted.error == found.message
    if mounted.state == Mount.State.ACTIVE:  # and a good one is accepted again
        second.serves = good
        assert look_at(mounted, monkeypatch, AT).outcome == "applied"
        assert (mounted.error, mounted.version) == ("", 3)
    else:
        assert bad.code == "forked"


def test_an_unknown_key_blocks_the_mount_until_a_manager_decides(
    settled: OtherSide, mounted: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled.key = SigningKey(bytes(32))
    settled.publish(projects(p1=51))
    before = _active()
    assert look_at(mounted, monkeypatch, AT).code == "unknown_key"
    assert (mounted.state, _active()) == ("blocked", before)


@pytest.mark.fault("F24")
def test_documents_deeper_than_the_mount_allows_are_rejected(
    settled: OtherSide, mounted: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    Mount.objects.update(most_levels=3)
    below, nodes = ROOT, []
    for n in range(5):
        nodes.append(Node(UUID(int=0x700 + n), below, f"l{n}"))
        below = nodes[-1].uid
    settled.publish(nodes)
    before = _active()
    found = look_at(mounted, monkeypatch, AT)
    assert found.outcome == "refused"
    assert found.code == "too_large"
    assert {"5", "3"} <= set(re.findall(r"\d+", found.message)), "how many, and how many this mount takes"
    assert _active() == before


@pytest.mark.fault("F24")
def test_entries_are_counted_before_they_are_created(
    settled: OtherSide, mounted: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Signed with the right key, and within the bytes that this mount takes: refused by their result."""
    Mount.objects.update(most_bytes=256 * 1024**2)
    settled.serves = signed(b'{"root":[' + b"{}," * 2_600_000 + b"{}]}")
    before = _active()
    found = look_at(mounted, monkeypatch, AT)
    assert (found.outcome, found.code) == ("refused", "bad_document")
    assert f"{MOST_NESTS:,}" in found.message
    assert _active() == before


def test_a_name_outside_the_mount_is_not_a_collision(
    settled: OtherSide, mounted: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paths are what is unique: a project of theirs may be called as a VO of ours."""
    settled.publish([*projects(), Node(UUID(int=0x900), P1, "VO-B", "project")])
    assert look_at(mounted, monkeypatch, AT).outcome == "applied"
    tree = load_tree(Policy.objects.get(slug="grid"))
    assert tree.index_of_path("/vo-a-here/P-A1/VO-B") is not None
    assert tree.index_of_path("/VO-B") is not None


@pytest.fixture
def others(vo: OtherSide, settings: LazySettings) -> Iterator[tuple[OtherSide, Mount]]:
    """A second authority, mounted beside the first."""
    with serving(OtherSide(at=AT)) as side:
        settings.FAIRSHARE_OUTBOUND_ALLOW = [*settings.FAIRSHARE_OUTBOUND_ALLOW, f"127.0.0.1:{side.port}"]
        nodes = [Node(UUID(int=0xC1), ROOT, "P-C1", "project", 1.0)]
        side.publish(nodes, issuer="vo-c.example", publication="vo-c")
        add_entry("vo-c-here", 10)
        yield side, mount_side(side, "/vo-c-here", issuer="vo-c.example", publication="vo-c")


@pytest.mark.parametrize("name", ["too many bytes", "a hundred thousand nested arrays", "forked", "a page"])
def test_other_mounts_are_fetched_on_time_meanwhile(
    name: str, settled: OtherSide, mounted: Mount, others: tuple[OtherSide, Mount], monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, (_, other) = BAD[name], others
    good = settled.publish(projects(p1=51))
    document = json.loads(good.split(b"\n")[0])
    if bad.change is not None:
        bad.change(document)
        settled.serves = signed(canonical(document))
    else:
        settled.serves = bad.raw(good) if bad.raw is not None else signed(bad.body(good)) if bad.body else b""
    later = AT + HOUR
    monkeypatch.setenv("FAIRSHARE_CLOCK", later.isoformat())
    assert request_due_fetches(at=later) == 2
    assert work_due_runs(clock=lambda: later) >= 1
    outcomes = dict(Fetch.objects.filter(at=later).values_list("mount", "outcome"))
    assert outcomes == {mounted.pk: "refused", other.pk: "applied"}
