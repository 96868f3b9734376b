"""Federation administered by REST: published, mounted, subscribed, and every step about what exists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import LazySettings

from apps.accounts.actor import COMMAND
from apps.accounts.models import AuditEvent
from apps.federation.models import Fetch, HeldHour, Mount, Publication, Subscription
from apps.federation.publishing import make_publication
from apps.runs.models import Run
from apps.runs.services import work_run_now
from tests.federation.other_side import KEY, OtherFeed, OtherSide, serving
from tests.federation.worlds import add_entry
from tests.instants import AT
from tests.rest_site import Caller
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture

WHY = {"reason": "As agreed by telephone."}
OTHER_KEY = "ab" * 32


@pytest.fixture(autouse=True)
def _named(settings: LazySettings) -> None:
    settings.FAIRSHARE_ISSUER = "site.example"


@pytest.fixture
def feed(settings: LazySettings, site: Site) -> Iterator[OtherFeed]:
    with serving(OtherFeed(at=AT)) as found:
        settings.FAIRSHARE_OUTBOUND_ALLOW = [f"127.0.0.1:{found.port}"]
        found.root = site.uid("/physics")
        found.tell({})
        make_publication(policy_slug="grid", entry="/physics", name="physics", at=AT, actor=COMMAND)
        yield found


def mounting(side: OtherSide, **more: Any) -> dict[str, Any]:
    return {
        "policy": "grid",
        "entry": "/vo",
        "url": side.url,
        "issuer": "vo-a.example",
        "publication": "vo-a",
        "fingerprint": KEY.public.fingerprint,
        **WHY,
        **more,
    }


def subscribing(feed: OtherFeed, **more: Any) -> dict[str, Any]:
    return {
        "policy": "grid",
        "entry": "/physics",
        "url": feed.url,
        "issuer": "site-b.example",
        "feed": "vo-a",
        "fingerprint": KEY.public.fingerprint,
        "capacity_cores": 100,
        **WHY,
        **more,
    }


@pytest.fixture
def mounted(admin: Caller, side: OtherSide) -> str:
    add_entry("vo")
    answer = admin.post("federation/mounts", mounting(side))
    assert answer.status_code == 201, answer.content
    return f"federation/mounts/{answer.json()['id']}"


@pytest.fixture
def subscribed(admin: Caller, feed: OtherFeed) -> str:
    answer = admin.post("federation/subscriptions", subscribing(feed))
    assert answer.status_code == 201, answer.content
    return f"federation/subscriptions/{answer.json()['id']}"


def body_of(answer: Any, status: int = 200) -> Any:
    assert answer.status_code == status, answer.content
    return answer.json()


def test_a_publication_is_created_changed_listed_and_deleted(admin: Caller) -> None:
    terms = {"policy": "grid", "entry": "/physics", "name": "vo-a"}
    made = body_of(admin.post("federation/publications", terms), 201)
    assert (made["path"], made["is_open"], made["document"]["version"], made["readings"]) == ("/physics", False, 1, [])
    body_of(admin.post("federation/publications", {**terms, "is_open": True}), 201)
    Caller().get("publications/vo-a")
    (listed,) = body_of(admin.get("federation/publications"))["results"]
    assert listed["is_open"]
    assert (listed["document"]["version"], listed["document"]["n_entries"]) == (1, 3)
    assert [reading["reader"] for reading in listed["readings"]] == [""]
    assert body_of(admin.get("federation/publications/vo-a")) == listed
    assert Caller(user=None).get("federation/publications").status_code == 401
    gone = admin.client.delete("/api/v1/federation/publications/vo-a?reason=over")
    assert (gone.status_code, Publication.objects.count()) == (204, 0)
    assert admin.get("federation/publications/vo-a").status_code == 404
    verbs = AuditEvent.objects.filter(verb__startswith="federation.").order_by("id").values_list("verb", flat=True)
    assert list(verbs) == ["federation.published", "federation.publication_changed", "federation.unpublished"]


@pytest.mark.parametrize(
    ("change", "where"),
    [({"name": "../x"}, "name"), ({"expires_after_s": 1}, "expires_after_s"), ({"entry": "/nowhere"}, None)],
)
def test_invalid_publication_fields_are_named(admin: Caller, change: dict[str, Any], where: str | None) -> None:
    answer = admin.post("federation/publications", {"policy": "grid", "entry": "/physics", "name": "vo-a", **change})
    assert answer.status_code == (422 if where else 404)
    assert [problem["where"] for problem in answer.json()["fields"]] == ([where] if where else [])
    assert not Publication.objects.exists()


def test_a_feed_is_created_changed_listed_and_deleted(admin: Caller) -> None:
    terms = {"policy": "grid", "entry": "/physics", "name": "vo-a", "capacity_cores": 100}
    made = body_of(admin.post("federation/feeds", terms), 201)
    assert (made["path"], made["capacity_cores"], made["sends_running"]) == ("/physics", 100, True)
    assert body_of(admin.post("federation/feeds", {**terms, "sends_running": False}), 201)["sends_running"] is False
    Caller(user=None).get("feeds/vo-a")
    (listed,) = body_of(admin.get("federation/feeds"))["results"]
    assert body_of(admin.get("federation/feeds/vo-a")) == listed
    wrong = body_of(admin.post("federation/feeds", {**terms, "capacity_cores": 0}), 422)
    assert [problem["where"] for problem in wrong["fields"]] == ["capacity_cores"]
    assert admin.client.delete("/api/v1/federation/feeds/vo-a").status_code == 204
    assert admin.client.delete("/api/v1/federation/feeds/vo-a").status_code == 404


def test_keys_are_listed_and_replaced(admin: Caller, site: Site) -> None:
    assert body_of(admin.get("federation/keys"))["results"] == []
    new = body_of(admin.post("federation/keys", WHY), 201)
    answer = body_of(Caller(user=site.nobody).get("federation/keys"))["results"]
    assert answer[-1] == new
    assert new["number"] == 2, "the first one is made, and hands over"
    assert Caller(user=site.pia).post("federation/keys", WHY).status_code == 403


def test_a_document_is_previewed_before_it_is_trusted(admin: Caller, side: OtherSide, site: Site) -> None:
    found = body_of(admin.post("federation/mounts/preview", {"policy": "grid", "url": side.url}))
    assert found["fingerprint"] == KEY.public.fingerprint
    assert (found["issuer"], found["version"], found["n_entries"], found["name"]) == ("vo-a.example", 1, 5, "VO-A")
    assert found["entries"][0] == {"name": "P-A1", "kind": "project", "shares": 50.0, "n_children": 1}
    assert not Mount.objects.exists()
    n_asked = len(side.asked)
    stranger = Caller(user=site.nobody).post("federation/mounts/preview", {"policy": "grid", "url": side.url})
    assert (stranger.status_code, len(side.asked)) == (404, n_asked), "nobody else has us connect anywhere"
    for url in ("http://169.254.169.254/", "http://127.0.0.1:1/"):
        answer = admin.post("federation/mounts/preview", {"policy": "grid", "url": url})
        assert 400 <= answer.status_code < 500, url


def test_a_mount_has_limits_and_is_refreshed_by_a_requested_run(
    admin: Caller, side: OtherSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_entry("vo")
    body = mounting(side, most_points=2.5, every_s=60, token="their-secret")
    made = body_of(admin.post("federation/mounts", body), 201)
    (peer,) = body_of(admin.get("federation/peers"))["results"]
    assert (peer["condition"], peer["duration_s"]) == ("new", None)
    assert (made["path"], made["most_points"], made["every_s"], made["has_token"]) == ("/vo", 2.5, 60, True)
    assert "their-secret" not in str(made)
    where = f"federation/mounts/{made['id']}"
    run = body_of(admin.post(f"{where}/fetch", {}), 202)
    assert work_run_now(run["id"]).state == Run.State.SUCCEEDED
    assert side.asked[-1]["authorization"] == "Bearer their-secret"
    now = body_of(admin.get(where))
    assert (now["version"], now["applied_version"], now["held"], now["trouble"], now["age_s"]) == (
        1,
        1,
        None,
        None,
        0.0,
    )
    (fetch,) = body_of(admin.get(f"{where}/fetches"))["results"]
    assert (fetch["outcome"], fetch["version"]) == ("applied", 1)
    (peer,) = body_of(admin.get("federation/peers"))["results"]
    assert (peer["condition"], peer["duration_s"]) == ("fresh", fetch["duration_s"])
    assert peer["duration_s"] > 0
    assert body_of(admin.get("federation/mounts"))["results"] == [now]


def test_settings_are_changed_within_their_ranges(admin: Caller, mounted: str) -> None:
    changed = body_of(admin.patch(mounted, {"most_points": 1, "stale_action": "local", **WHY}))
    assert (changed["most_points"], changed["stale_action"], changed["most_levels"]) == (1.0, "local", 32)
    answer = admin.patch(mounted, {"every_s": 1, "max_age_s": 1, **WHY})
    assert body_of(answer, 422)["code"] == "invalid"
    assert {problem["where"] for problem in answer.json()["fields"]} == {"every_s", "max_age_s"}
    assert admin.patch(mounted, {"most_points": 3}).status_code == 400, "a reason is asked for"
    assert admin.patch(mounted, {"speed": 3, **WHY}).status_code == 400
    assert body_of(admin.patch(mounted, {"token": "abc", **WHY}))["has_token"]
    assert not body_of(admin.patch(mounted, {"token": "", **WHY}))["has_token"]


@pytest.mark.parametrize("what", ["mounted", "subscribed"])
def test_actions_are_the_same_for_mounts_and_subscriptions(
    what: str, request: pytest.FixtureRequest, admin: Caller
) -> None:
    where = request.getfixturevalue(what)
    for step, state in (
        ("freeze", "frozen"),
        ("unfreeze", "active"),
        ("pause", "paused"),
        ("resume", "active"),
        ("reset-history", "active"),
    ):
        assert body_of(admin.post(f"{where}/{step}", WHY))["state"] == state, step
    assert admin.post(f"{where}/pause", {}).status_code == 400, "without a reason"
    body_of(admin.post(f"{where}/pause", WHY))
    assert body_of(admin.post(f"{where}/fetch", {}), 409)["code"] == "paused"
    trusted = body_of(admin.post(f"{where}/trust-key", {"fingerprint": OTHER_KEY.upper(), **WHY}))
    assert trusted["fingerprint"] == OTHER_KEY
    assert body_of(admin.post(f"{where}/trust-key", {"fingerprint": "12", **WHY}), 422)["fields"]
    end = "unmount" if what == "mounted" else "unsubscribe"
    assert admin.post(f"{where}/{end}", WHY).status_code == 204
    assert admin.get(where).status_code == 404
    assert (Mount.objects.count(), Subscription.objects.count()) == (0, 0)


def test_the_fetch_log_is_paged_newest_first(admin: Caller, mounted: str) -> None:
    mount = Mount.objects.get()
    made = [Fetch.objects.create(mount=mount, at=AT, outcome="same", version=n).version for n in range(5)]
    seen: list[int] = []
    query: dict[str, Any] = {"limit": 2}
    while True:
        page = body_of(admin.get(f"{mounted}/fetches", query))
        seen += [fetch["version"] for fetch in page["results"]]
        if page["next"] is None:
            break
        query["cursor"] = page["next"]
    assert seen == made[::-1]


def test_usage_of_another_site_is_previewed_and_subscribed(admin: Caller, feed: OtherFeed) -> None:
    body = {"policy": "grid", "entry": "/physics", "url": feed.url}
    found = body_of(admin.post("federation/subscriptions/preview", body))
    assert (found["fingerprint"], found["site"], found["capacity_cores"]) == (KEY.public.fingerprint, "site-b", 100.0)
    made = body_of(admin.post("federation/subscriptions", subscribing(feed)), 201)
    assert (made["issuer"], made["capacity_cores"], made["number"]) == ("site-b.example", 100.0, 0)
    assert admin.get(f"usage/sources/{made['source']}").json()["kind"] == "peer"


def test_held_hours_are_listed_and_a_capacity_approved(admin: Caller, subscribed: str) -> None:
    row = Subscription.objects.get()
    HeldHour.objects.create(subscription=row, hour_at=AT, number=3, cpu_s=1e6, most_cpu_s=363_600, found_at=AT)
    (held,) = body_of(admin.get(f"{subscribed}/held-hours"))["results"]
    assert (held["cpu_s"], held["most_cpu_s"]) == (1e6, 363_600)
    assert body_of(admin.get(subscribed))["n_held_hours"] == 1
    agreed = body_of(admin.post(f"{subscribed}/agree-capacity", {"cores": 400, **WHY}))
    assert (agreed["capacity_cores"], agreed["number"]) == (400.0, 0)
    assert admin.post(f"{subscribed}/agree-capacity", {"cores": 0, **WHY}).status_code == 422


def test_a_reader_token_of_a_peer_manages_nothing(admin: Caller, mounted: str, site: Site) -> None:
    peer = Caller(token=site.token("federation"))
    assert body_of(peer.get("federation/mounts"), 403)["code"] == "insufficient_scope"
    assert peer.get(mounted).status_code == 403
    for step in ("pause", "trust-key", "unmount", "fetch"):
        assert peer.post(f"{mounted}/{step}", WHY).status_code == 403, step
    assert peer.post("federation/mounts/preview", {"policy": "grid", "url": "http://x/"}).status_code == 403
    manager = Caller(token=site.token("federation", "policies:write"))
    assert body_of(manager.post(f"{mounted}/pause", WHY))["state"] == "paused"
    apart = Caller(token=site.token("policies:write"))
    assert apart.get(mounted).status_code == 404
    assert body_of(apart.get("federation/mounts"))["results"] == []


def test_a_token_stays_within_its_subtree(admin: Caller, mounted: str, site: Site) -> None:
    scopes = ("federation", "policies:write")
    for bounds in (
        {"policy_slug": "other"},
        {"policy_slug": "grid", "subtree_uid": site.uid("/physics")},
    ):
        bound: dict[str, Any] = bounds
        caller = Caller(token=site.token(*scopes, **bound))
        assert caller.get(mounted).status_code == 404, bounds
        assert body_of(caller.get("federation/mounts"))["results"] == []
        assert caller.post(f"{mounted}/pause", WHY).status_code == 404, bounds
    assert Caller(token=site.token(*scopes, policy_slug="grid")).get(mounted).status_code == 200


def test_without_the_mount_right_nothing_is_found(mounted: str, site: Site) -> None:
    for user in (site.nobody, site.alice, site.ben):
        caller = Caller(user=user)
        assert caller.get(mounted).status_code == 404
        assert body_of(caller.get("federation/mounts"))["results"] == []
        assert caller.post(f"{mounted}/pause", WHY).status_code == 404
    assert Caller().get(mounted).status_code == 401
