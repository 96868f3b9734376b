"""What others read of ours: who may, in which packing, and what it costs when nothing changed."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import zstandard
from django.conf import LazySettings
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.actor import COMMAND, SYSTEM
from apps.accounts.models import Token
from apps.accounts.services import revoke_token
from apps.core.signing import open_document
from apps.federation import readings as reading
from apps.federation.documents.site_keys import load_keys, rotate_key
from apps.federation.models import Mount, Publication, PublishedDocument, Reading, UsageFeed
from apps.federation.publishing import drop_publication, make_publication
from apps.federation.usage_feeds.feeds import make_feed
from apps.policies.models import Policy
from apps.policies.publishing.direct import publish_operations
from apps.policies.tree.stored import tree_cache
from tests.federation.builds import build_due
from tests.instants import AT
from tests.rest_site import Caller, refused
from tests.small_site import Site, push, record
from tests.worlds import fresh_process  # noqa: F401 - fixture

WHERE = "publications/vo-a"


@pytest.fixture(autouse=True)
def _named(settings: LazySettings) -> None:
    settings.FAIRSHARE_ISSUER = "vo-a.example"
    reading._noted = reading._RecentReadings()


@pytest.fixture
def published(site: Site) -> Site:
    make_publication(policy_slug="grid", entry="/physics", name="vo-a", at=AT, actor=COMMAND)
    return site


def document(answer: Any) -> Any:
    assert answer.status_code == 200, answer.content
    return open_document(answer.content, trusted={load_keys(at=AT).key.public.fingerprint}).document


def change(site: Site, shares: float = 7) -> None:
    operation = {"op": "set_shares", "entry": "/physics/bob", "shares": shares}
    publish_operations(policy_slug="grid", operations=[operation], reason="More.", at=AT, actor=COMMAND)
    build_due()


def test_a_token_with_the_scope_reads_the_signed_bytes(published: Site) -> None:
    answer = Caller(token=published.token("federation")).get(WHERE)
    found = document(answer)
    assert (found["issuer"], found["publication"], found["version"]) == ("vo-a.example", "vo-a", 1)
    assert [child["name"] for child in found["root"]["children"]] == ["alice", "bob"]
    assert answer["Content-Type"] == "application/vnd.fairshare.signed"
    assert answer["Cache-Control"] == "private, no-store"
    assert set(answer["Vary"].split(", ")) >= {"Accept-Encoding", "Authorization"}


def test_reading_needs_the_scope_and_visibility(published: Site) -> None:
    physics, biology, alice = (published.uid(path) for path in ("/physics", "/biology", "/physics/alice"))
    tokens: list[tuple[int, dict[str, Any]]] = [
        (200, {}),
        (200, {"policy_slug": "grid"}),
        (200, {"policy_slug": "grid", "subtree_uid": physics}),
        (200, {"policy_slug": "grid", "subtree_uid": published.uid("/")}),
        (200, {"user": published.nobody}),  # only administrators give this scope: whose token it is doesn't matter
        (404, {"policy_slug": "grid", "subtree_uid": biology}),
        (404, {"policy_slug": "grid", "subtree_uid": alice}),
        (404, {"policy_slug": "other"}),
    ]
    for status, bounds in tokens:
        answer = Caller(token=published.token("federation", **bounds)).get(WHERE)
        assert answer.status_code == status, bounds
        if status == 200:
            assert document(answer)["root"]["uid"] == str(physics), bounds
        else:
            assert refused(answer) == (404, "not_found", []), bounds
    others = ("policies:read", "priorities:read", "policies:write", "usage:write")
    for scope in others:
        assert Caller(token=published.token(scope)).get(WHERE).status_code == 404, scope
    assert Caller(token=published.token("admin")).get(WHERE).status_code == 200
    assert Caller(token=published.token("admin", policy_slug="other")).get(WHERE).status_code == 404
    assert Caller(token=published.token("admin", user=published.pia)).get(WHERE).status_code == 404
    assert Caller().get(WHERE).status_code == 404
    for user, status in ((published.admin, 200), (published.pia, 404), (published.nobody, 404)):
        assert Caller(user=user).get(WHERE).status_code == status, user


def test_a_stopped_publication_is_reported_only_to_its_readers(
    published: Site, caplog: pytest.LogCaptureFixture
) -> None:
    owner, stranger = (Caller(user=user).get(WHERE) for user in (published.pia, published.nobody))
    assert refused(owner) == (404, "closed", [])
    assert "scope federation" in owner.json()["detail"]
    missing = Caller(user=published.nobody).get("publications/vo-z").json()["detail"].replace("vo-z", "vo-a")
    assert (refused(stranger)[1], stranger.json()["detail"]) == ("not_found", missing), "as if there were none"
    assert refused(Caller(token=published.token("admin", user=published.pia)).get(WHERE))[1] == "not_found", (
        "tokens are given away"
    )
    assert caplog.text.count("is closed, and was asked for") == 1, "once a minute"


def test_a_revoked_token_is_refused_as_such(published: Site) -> None:
    caller = Caller(token=published.token("federation"))
    assert caller.get(WHERE).status_code == 200
    revoke_token(token_id=Token.objects.latest("id").pk, at=AT, actor=SYSTEM)
    answer = caller.get(WHERE)
    assert (answer.status_code, answer.json()["code"]) == (401, "invalid_token")
    assert "WWW-Authenticate" in answer


def test_hidden_publications_are_answered_like_unknown_ones(published: Site) -> None:
    caller = Caller(user=published.ben)
    hidden, missing = (caller.get(f"publications/{name}", x_request_id="same").content for name in ("vo-a", "vo-b"))
    assert hidden == missing
    for name in ("VO-A", "%00", "vo-a%20", "a" * 400):
        assert caller.get(f"publications/{name}").status_code == 404


def test_an_open_publication_needs_no_token(site: Site) -> None:
    make_publication(policy_slug="grid", entry="/physics", name="vo-a", is_open=True, at=AT, actor=COMMAND)
    assert document(Caller().get(WHERE))["version"] == 1
    assert Caller(user=site.nobody).get(WHERE).status_code == 200
    assert Caller(token=site.token("policies:read")).get(WHERE).status_code == 200
    drop_publication(name="vo-a", reason="Over.", at=AT, actor=COMMAND)
    assert Caller(user=site.admin).get(WHERE).status_code == 404


def test_an_up_to_date_reader_gets_304_until_a_change(published: Site) -> None:
    caller = Caller(token=published.token("federation"))
    first = caller.get(WHERE)
    for known in (first["ETag"], first["ETag"].removeprefix("W/"), f'"x", {first["ETag"]}', "*"):
        again = caller.get(WHERE, if_none_match=known)
        assert (again.status_code, again.content, again["ETag"]) == (304, b"", first["ETag"]), known
    assert caller.get(WHERE, if_none_match='"other"').status_code == 200
    change(published)
    second = caller.get(WHERE, if_none_match=first["ETag"])
    assert document(second)["version"] == 2
    assert second["ETag"] != first["ETag"]


def test_a_conditional_request_loads_no_tree_and_no_document(published: Site) -> None:
    caller = Caller(token=published.token("federation"))
    tag = caller.get(WHERE)["ETag"]
    tree_cache.clear()
    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert caller.get(WHERE, if_none_match=tag).status_code == 304
    asked = " ".join(query["sql"] for query in queries.captured_queries)
    assert '"policies_revision"' not in asked, "the tree isn't asked for"
    assert '"federation_publisheddocument"."data"' not in asked
    assert "FOR UPDATE" not in asked
    assert len(queries) <= 6, asked


def test_reading_writes_nothing_and_a_change_is_served_once_it_is_built(published: Site) -> None:
    caller = Caller(user=published.admin)
    first = caller.get(WHERE)
    operation = {"op": "set_shares", "entry": "/physics/bob", "shares": 41}
    publish_operations(policy_slug="grid", operations=[operation], reason="B.", at=AT, actor=COMMAND)
    with CaptureQueriesContext(connection) as queries:
        assert caller.get(WHERE).content == first.content
    assert not any("federation_" in query["sql"] for query in queries if not query["sql"].startswith("SELECT"))
    assert build_due() == [f"publication:{Publication.objects.get().pk}"], "its publish has asked"
    assert document(caller.get(WHERE))["version"] == 2
    assert build_due() == []


def test_a_change_elsewhere_signs_nothing_new(published: Site) -> None:
    caller = Caller(token=published.token("federation"))
    tag = caller.get(WHERE)["ETag"]
    operation = {"op": "set_shares", "entry": "/biology", "shares": 41}
    publish_operations(policy_slug="grid", operations=[operation], reason="B.", at=AT, actor=COMMAND)
    build_due()
    assert caller.get(WHERE, if_none_match=tag).status_code == 304
    assert PublishedDocument.objects.get().revision_number == Policy.objects.get(slug="grid").head_number
    assert build_due() == []


def test_what_is_not_built_yet_is_answered_with_retry_after(published: Site) -> None:
    make_feed(policy_slug="grid", entry="/physics", name="vo-a", capacity_cores=100, at=AT, actor=COMMAND)
    PublishedDocument.objects.all().delete()
    UsageFeed.objects.update(built_at=None)
    caller = Caller(token=published.token("federation"))
    for where in (WHERE, "feeds/vo-a"):
        answer = caller.get(where)
        assert (answer.status_code, answer.json()["code"]) == (503, "not_built"), where
        assert int(answer["Retry-After"]) > 0
    assert len(build_due()) == 2
    assert [caller.get(where).status_code for where in (WHERE, "feeds/vo-a")] == [200, 200]


def test_a_new_key_a_new_name_and_half_the_lifetime_make_a_new_version(
    published: Site, monkeypatch: pytest.MonkeyPatch, settings: LazySettings
) -> None:
    caller = Caller(token=published.token("federation"))
    assert document(caller.get(WHERE))["version"] == 1
    rotate_key(reason="Yearly.", at=AT, actor=COMMAND)
    build_due()
    assert document(caller.get(WHERE))["version"] == 2
    settings.FAIRSHARE_ISSUER = "vo-b.example"
    build_due()
    assert document(caller.get(WHERE))["version"] == 3
    monkeypatch.setenv("FAIRSHARE_CLOCK", (AT + timedelta(days=4)).isoformat())
    build_due(AT + timedelta(days=4))
    assert document(caller.get(WHERE))["version"] == 4


@pytest.mark.paper("4.6")
def test_a_document_lists_nested_mounts_to_detect_cycles(published: Site) -> None:
    operation = {"op": "mount", "entry": "/physics", "mount": {"issuer": "vo-b.example", "publication": "x"}}
    publish_operations(policy_slug="grid", operations=[operation], reason="B.", at=AT, actor=COMMAND)
    mount = Mount.objects.create(
        policy=published.policy,
        entry_uid=published.uid("/physics"),
        url="https://vo-b.example/x",
        issuer="vo-b.example",
        publication="x",
        fingerprint="0" * 64,
        made_at=AT,
    )
    caller = Caller(token=published.token("federation"))
    build_due()
    assert document(caller.get(WHERE))["issuers"] == ["vo-b.example"]
    mount.issuers = ["vo-c.example", "vo-d.example"]
    mount.save()
    build_due()
    assert document(caller.get(WHERE))["issuers"] == ["vo-b.example", "vo-c.example", "vo-d.example"]
    make_publication(policy_slug="grid", entry="/physics/alice", name="part", at=AT, actor=COMMAND)
    assert document(caller.get("publications/part"))["issuers"] == ["vo-b.example"], "what lies in a mount is theirs"


@pytest.mark.parametrize(
    ("accepts", "coding"),
    [
        ("gzip", "gzip"),
        ("gzip, deflate, br, zstd", "zstd"),
        ("zstd;q=0.1, gzip;q=0.9", "gzip"),
        ("gzip;q=0, identity", ""),
        ("br", ""),
        ("", ""),
        ("gzip;q=x", ""),
    ],
)
def test_the_document_is_compressed_as_requested(published: Site, accepts: str, coding: str) -> None:
    caller = Caller(token=published.token("federation"))
    plain = caller.get(WHERE).content
    answer = caller.get(WHERE, accept_encoding=accepts)
    unpackers: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.decompress, "zstd": zstandard.decompress}
    assert answer.get("Content-Encoding", "") == coding
    assert unpackers.get(coding, bytes)(answer.content) == plain
    assert int(answer["Content-Length"]) == len(answer.content)


def test_a_site_without_an_issuer_name_answers_with_retry_after(published: Site, settings: LazySettings) -> None:
    settings.FAIRSHARE_ISSUER = ""
    answer = Caller(token=published.token("federation")).get(WHERE)
    assert (answer.status_code, answer.json()["code"]) == (503, "no_issuer")
    assert int(answer["Retry-After"]) > 0


def test_only_the_documented_media_types_are_accepted(published: Site) -> None:
    caller = Caller(token=published.token("federation"))
    for accept in ("application/vnd.fairshare.signed", "*/*"):
        answer = caller.get(WHERE, accept=accept)
        assert (answer.status_code, answer["Content-Type"]) == (200, "application/vnd.fairshare.signed"), accept
    assert refused(caller.get(WHERE, accept="text/html")) == (406, "not_acceptable", [])


def test_readers_are_logged_once_a_minute_per_number(published: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    caller = Caller(token=published.token("federation"))
    caller.get(WHERE)
    (first,) = Reading.objects.all()
    assert (first.reader, first.version, first.at) == ("test", 1, AT)
    for seconds, at in ((59, AT), (61, AT + timedelta(seconds=61))):
        monkeypatch.setenv("FAIRSHARE_CLOCK", (AT + timedelta(seconds=seconds)).isoformat())
        caller.get(WHERE)
        assert Reading.objects.get().at == at
    change(published)
    caller.get(WHERE)
    assert Reading.objects.get().version == 2, "a new number is noted at once"
    Caller(user=published.admin).get(WHERE)
    assert Reading.objects.count() == 1, "an administrator who looks is no peer"


@pytest.fixture
def fed(published: Site) -> Site:
    make_feed(policy_slug="grid", entry="/physics", name="vo-a", capacity_cores=100, at=AT, actor=COMMAND)
    return published


def test_a_feed_is_read_since_a_number_with_304_if_current(fed: Site) -> None:
    caller = Caller(token=fed.token("federation"))
    first = caller.get("feeds/vo-a")
    found = document(first)
    assert (found["format"], found["feed"], found["root"], found["since"]) == (
        "fairshare-usage/1",
        "vo-a",
        str(fed.uid("/physics")),
        0,
    )
    assert sum(sum(hour["cpu_s"]) for hour in found["hours"]) == 7 * 3600, "alice had 6 hours, bob one"
    assert "alice" not in str(found)
    assert caller.get("feeds/vo-a", if_none_match=first["ETag"]).status_code == 304
    later = caller.get("feeds/vo-a", {"since": found["number"]})
    assert document(later)["hours"] == []
    assert caller.get("feeds/vo-a", {"since": found["number"]}, if_none_match=later["ETag"]).status_code == 304
    push(fed, [record("9", "alice", "physics", 2, at=AT)])
    build_due()
    more = document(caller.get("feeds/vo-a", {"since": found["number"]}, if_none_match=later["ETag"]))
    assert more["number"] > found["number"]
    assert len(more["hours"]) >= 2
    packed = caller.get("feeds/vo-a", accept_encoding="gzip")
    assert packed["Content-Encoding"] == "gzip"
    assert open_document(gzip.decompress(packed.content), trusted=None).document["feed"] == "vo-a"


def test_a_feed_has_its_own_readers_and_refuses_invalid_parameters(fed: Site, settings: LazySettings) -> None:
    caller = Caller(token=fed.token("federation"))
    for since, status, code in (("-1", 400, "invalid"), ("x", 400, "invalid"), ("999", 409, "since_ahead")):
        answer = caller.get("feeds/vo-a", {"since": since})
        assert (answer.status_code, answer.json()["code"]) == (status, code), since
    assert caller.get("feeds/vo-a", {"sinse": 1}).status_code == 400
    for other in (Caller(), Caller(user=fed.pia), Caller(token=fed.token("policies:read"))):
        assert other.get("feeds/vo-a").status_code == 404
    biology: dict[str, Any] = {"policy_slug": "grid", "subtree_uid": fed.uid("/biology")}
    assert Caller(token=fed.token("federation", **biology)).get("feeds/vo-a").status_code == 404
    caller.get("feeds/vo-a")
    assert [(reading.reader, reading.feed is not None) for reading in Reading.objects.all()] == [("test", True)]
    settings.FAIRSHARE_ISSUER = ""
    assert caller.get("feeds/vo-a").json()["code"] == "no_issuer"


def test_an_open_feed_needs_no_token(fed: Site) -> None:
    assert Caller().get("feeds/vo-a").status_code == 404, "before it is opened"
    whole: dict[str, Any] = {"policy_slug": "grid", "entry": "/physics", "name": "vo-a", "capacity_cores": 100}
    make_feed(is_open=True, **whole, at=AT, actor=COMMAND)
    assert document(Caller().get("feeds/vo-a"))["feed"] == "vo-a"
