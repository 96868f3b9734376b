"""Wherever numbers depend on it: local-only fallback, since when and why; in the past that of that time."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest
from django.test import Client

from apps.accounts.actor import SYSTEM
from apps.federation.models import Mount, Remote
from apps.pages.overview import cards
from apps.policies.publishing.direct import publish_operations
from apps.priorities.local_only import fall_back, recover
from apps.runs.services import work_run_now
from apps.series.daily_series import SeriesState
from apps.series.models import Series
from apps.series.runs import enqueue_series_build
from apps.series.stored_series import series_state
from tests.instants import AT
from tests.pages.federation.mounted import signed_in
from tests.pages.federation.test_mounts import admin, mount, origin, path_of, place, side  # noqa: F401
from tests.pages.page import read, text_of
from tests.rest_site import Caller, computed, site  # noqa: F401 - fixtures
from tests.series_by_hand import HandMade, put_in_place
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture

HOUR = timedelta(hours=1)
HTMX = {"HX-Request": "true"}
REASON = "vo-a.example, vo-a: Not confirmed since noon."
SINCE = "Fri 20 Nov 2026, 12:00"
SAID = (REASON, SINCE, "/physics")  # whatever the words around them are
ATTENTION = "/_attention?policy=grid"


@pytest.fixture
def alone(computed: Site) -> Site:  # noqa: F811
    """Global usage counts below /physics, and the last contact with any peer was at noon."""
    cards.last_good.clear()
    make_global(computed, "/physics")
    fall_back(computed.policy, computed.uid("/physics"), reason=REASON, at=AT)
    computed.recompute()
    return computed


def make_global(site: Site, path: str) -> None:  # noqa: F811
    operation = {"op": "set_scope", "entry": path, "scope": "global"}
    publish_operations(policy_slug="grid", operations=[operation], reason="Shared.", at=AT, actor=SYSTEM)


def page_of(site: Site, path: str, what: str = "") -> str:  # noqa: F811
    return f"/policy/grid/n/{site.uid(path)}/{path.rpartition('/')[2]}/{what}"


def local_only(answer: Any) -> list[str | None]:
    """Keys of what a page says of usage that doesn't count."""
    return [each.attributes["data-key"] for each in read(answer).items("local-only")]


def local_only_text(answer: Any) -> str:
    return text_of(read(answer).item("local-only"))


def test_tree_figure_and_entries_mark_local_only_numbers(alone: Site) -> None:
    client = signed_in(alone.admin)
    for path in ("/policy/grid/", "/policy/grid/icicle/", page_of(alone, "/physics"), page_of(alone, "/physics/bob")):
        answer = client.get(path)
        assert local_only(answer) == ["fallback.below"], path
        assert [part for part in SAID if part not in local_only_text(answer)] == [], path
    for path in (page_of(alone, "/biology"), page_of(alone, "/biology/carol")):
        assert local_only(client.get(path)) == [], path


def test_entries_with_local_scope_are_not_marked(computed: Site) -> None:  # noqa: F811
    fall_back(computed.policy, computed.uid("/physics"), reason=REASON, at=AT)
    computed.recompute()
    assert local_only(signed_in(computed.admin).get("/policy/grid/")) == []


def test_a_past_instant_shows_the_fallback_of_that_time(alone: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    recover(alone.policy, alone.uid("/physics"), at=AT + HOUR)
    monkeypatch.setenv("FAIRSHARE_CLOCK", (AT + HOUR).isoformat())
    alone.at = AT + HOUR
    alone.recompute()
    client = signed_in(alone.admin)
    pages = ("/policy/grid/", "/policy/grid/icicle/", page_of(alone, "/physics"))
    for path in pages:
        assert local_only(client.get(path)) == [], path
        then = client.get(f"{path}?at=2026-11-20T12:30:00Z")
        assert local_only(then) == ["fallback.below_then"], path
        assert [part for part in SAID if part not in local_only_text(then)] == [], path
    fall_back(alone.policy, alone.uid("/biology"), reason="not now", at=AT + HOUR)
    then = client.get("/policy/grid/?at=2026-11-20T12:30:00Z")
    assert (local_only(then), "not now" in local_only_text(then)) == (["fallback.below_then"], False)
    mine = signed_in(alone.alice)
    assert any(fallen_of(mine.get("/me/priority/?at=2026-11-20T12:30:00Z")))
    assert not any(fallen_of(mine.get("/me/priority/")))


def fallen_of(answer: Any) -> list[str]:
    """What each level of one's own way says of it."""
    page = read(answer)
    found = [level.local_only for level in answer.context["story"].levels]
    for level, shown in zip(found, page.texts("ol.lv > li"), strict=False):
        assert not level or (REASON in level and SINCE in level.replace("\N{NO-BREAK SPACE}", " ") and REASON in shown)
    return found


def test_the_overview_links_to_the_fallback_for_users_who_see_the_entry(alone: Site) -> None:
    for person in (alone.admin, alone.pia, alone.alice):
        page = read(signed_in(person).get(ATTENTION, headers=HTMX))
        item = page.one('[data-testid=attention-item][data-key="local_only"]')
        assert [part for part in SAID if part not in text_of(item)] == [], person
        assert page_of(alone, "/physics") in page.values("href", '[data-key="local_only"]'), person
    assert "local_only" not in attention_keys(signed_in(alone.ben).get(ATTENTION, headers=HTMX))


def attention_keys(answer: Any) -> list[str]:
    return [each.attributes["data-key"] or "" for each in read(answer).items("attention-item")]


def test_the_group_page_shows_the_fallback_to_its_lead(alone: Site) -> None:
    led = signed_in(alone.pia).get(f"/policy/grid/group/{alone.uid('/physics')}/")
    assert local_only(led) == ["fallback.below"]
    assert [part for part in SAID if part not in local_only_text(led)] == []
    assert local_only(signed_in(alone.ben).get(f"/policy/grid/group/{alone.uid('/biology')}/")) == []


def test_my_priority_marks_the_level_of_the_fallback(alone: Site) -> None:
    answer = signed_in(alone.alice).get("/me/priority/")
    assert [bool(each) for each in fallen_of(answer)] == [False, True], "not above, and at the level of physics"
    physics, alice, *_rest = read(answer).texts("ol.lv > li")
    assert [("physics" in each, REASON in each) for each in (physics, alice)] == [(True, False), (True, True)]
    assert read(answer).text("main").count(REASON) == 1


def test_rest_marks_the_level_by_key_without_a_reason_for_hidden_entries(alone: Site) -> None:
    (attention_items,) = Caller(user=alone.alice).get("me/explain").json()["accounts"]
    keys = [[one["key"] for one in step["sentences"]] for step in attention_items["steps"]]
    assert [["walk.local_only" in each for each in keys]] == [[False, True]]
    (fallen,) = [one for one in attention_items["steps"][1]["sentences"] if one["key"] == "walk.local_only"]
    assert fallen["values"] == {"at": "2026-11-20T12:00:00Z", "reason": REASON}
    bound: dict[str, Any] = {"policy_slug": "grid", "subtree_uid": alone.uid("/physics/alice")}
    caller = Caller(token=alone.token("priorities:read", **bound))
    answer = caller.get("policies/grid/explain", {"account": "alice"})
    (step,) = answer.json()["results"][0]["steps"]
    assert step["sentences"][-1]["key"] == "walk.local_only_above"
    mine = Caller(token=alone.token("self:read", user=alone.alice, **bound)).get("me/explain")
    assert mine.json()["accounts"][0]["steps"][-1]["sentences"][-1]["key"] == "walk.local_only_above"
    for each in (answer, mine):
        assert "vo-a.example" not in each.content.decode()


@pytest.fixture
def days(alone: Site, monkeypatch: pytest.MonkeyPatch) -> HandMade:
    """Twenty days, of which the last two are of this site's usage alone below /physics."""
    used = {"/physics/alice": [6.0] * 20, "/physics/bob": [1.0] * 20, "/biology/carol": [3.0] * 20}
    made = HandMade(date(2026, 11, 21), used)
    made.state = SeriesState(made.on[0], made.to_on, local_since={alone.uid("/physics"): AT})
    monkeypatch.setenv("FAIRSHARE_CLOCK", (AT + 48 * HOUR).isoformat())
    return put_in_place(made, monkeypatch)


DAYS = (REASON, "20 Nov 2026", "/physics")


def test_convergence_names_the_days_of_the_fallback(alone: Site, days: HandMade) -> None:
    client = signed_in(alone.admin)
    bob = page_of(alone, "/physics/bob", "convergence/")
    physics = f"/policy/grid/convergence/?level={alone.uid('/physics')}"
    for path in ("/policy/grid/convergence/", physics, bob):
        answer = client.get(path)
        assert local_only(answer) == ["local_only"], path
        assert [part for part in DAYS if part not in local_only_text(answer)] == [], path
        assert answer.content.index(b'data-testid="local-only"') < answer.content.index(b'id="fig-over-time"'), path
    for path in (
        f"/policy/grid/convergence/?level={alone.uid('/biology')}",
        "/policy/grid/convergence/?from=2026-11-02&to=2026-11-19",
    ):
        assert local_only(client.get(path)) == [], path


def test_days_of_an_ended_fallback_are_marked_for_recalculation(alone: Site, days: HandMade) -> None:
    recover(alone.policy, alone.uid("/physics"), at=AT + HOUR)
    answer = signed_in(alone.admin).get("/policy/grid/convergence/")
    assert local_only(answer) == ["local_only_until"]
    assert "20 Nov 2026" in local_only_text(answer)
    assert REASON not in read(answer).text("body")


def test_convergence_by_rest_marks_the_fallback_without_hidden_names(alone: Site, days: HandMade) -> None:
    path = "policies/grid/convergence"
    (attention_items,) = Caller(user=alone.admin).get(path, {"entry": "/physics"}).json()["local_only"]
    assert attention_items["key"] == "local_only"
    assert [part for part in DAYS if part not in attention_items["text"]] == []
    assert attention_items["values"] == {"name": "/physics", "since": "2026-11-20", "reason": REASON}
    assert Caller(user=alone.admin).get(path, {"entry": "/biology"}).json()["local_only"] == []
    assert Caller(user=alone.ben).get(path).json()["local_only"] == [], "what a sibling does is not ben's to see"
    token = alone.token("policies:read", policy_slug="grid", subtree_uid=alone.uid("/physics/alice"))
    (hidden,) = Caller(token=token).get(path).json()["local_only"]
    assert (hidden["key"], hidden["values"]) == ("local_only_above", {"since": "2026-11-20"})


def test_the_state_of_days_equals_the_state_they_were_built_with(alone: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", (AT + 24 * HOUR).isoformat())
    work_run_now(enqueue_series_build(alone.policy, at=AT + 24 * HOUR).pk)
    assert series_state(alone.policy).local_since == {alone.uid("/physics"): AT}
    recover(alone.policy, alone.uid("/physics"), at=AT + 24 * HOUR)
    state = series_state(alone.policy)
    assert (state.local_since, state.stale_from_on) == ({alone.uid("/physics"): AT}, date(2026, 11, 20))
    work_run_now(enqueue_series_build(alone.policy, at=AT + 24 * HOUR).pk)
    assert series_state(alone.policy).local_since == {}
    Series.objects.update(inputs={})  # as before anything was written of it
    assert series_state(alone.policy).local_since == {}


def test_stale_data_is_listed_once_with_the_current_behaviour(mount: Mount, place: Site) -> None:  # noqa: F811
    cards.last_good.clear()
    rows = Mount.objects.filter(pk=mount.pk)
    administrator = signed_in(place.admin)

    def attention_items(**changes: Any) -> tuple[list[str], str]:
        """Keys of the items about peers and of usage, and its text."""
        rows.update(**changes)
        page = read(administrator.get(ATTENTION, headers=HTMX))
        found = [
            each
            for each in page.items("attention-item")
            if (each.attributes["data-key"] or "").startswith(("peer.", "l"))
        ]
        return [each.attributes["data-key"] or "" for each in found], " ".join(text_of(each) for each in found)

    assert attention_items()[0] == []
    keys, text = attention_items(good_at=AT - 30 * HOUR)
    assert keys == ["peer.stale meanwhile.keep"]
    assert all(part in text for part in ("/vo-a", "vo-a.example", "30 h"))
    card = read(administrator.get(ATTENTION, headers=HTMX))
    assert path_of(mount) in card.values("href", '[data-key^="peer."]')
    assert "vo-a.example" not in signed_in(place.ben).get(ATTENTION, headers=HTMX).content.decode(), "he doesn't see it"
    assert attention_items(good_at=AT, expires_at=AT - HOUR)[0] == ["peer.expired meanwhile.keep"]
    keys, text = attention_items(expires_at=None, state=Remote.State.FROZEN)
    assert (keys, "0 s" in text) == (["peer.frozen meanwhile.freeze"], True)
    make_global(place, "/vo-a")
    fall_back(place.policy, place.uid("/vo-a"), reason=REASON, at=AT)
    place.recompute()
    keys, text = attention_items(state=Remote.State.ACTIVE, good_at=AT - 30 * HOUR, stale_action="local")
    assert keys == ["local_only"], "shown once"
    assert [part for part in (REASON, SINCE, "/vo-a") if part not in text] == []


def test_viewers_are_linked_to_the_entry_instead_of_the_mount(mount: Mount, place: Site) -> None:  # noqa: F811
    cards.last_good.clear()
    Mount.objects.filter(pk=mount.pk).update(good_at=AT - 30 * HOUR)
    type(place.policy).objects.filter(slug="grid").update(visibility="tree")
    card = signed_in(place.alice).get(ATTENTION, headers=HTMX).content.decode()
    assert page_of(place, "/vo-a") in card
    assert path_of(mount) not in card


def test_the_age_of_a_mount_is_shown_with_its_days_and_group(
    mount: Mount,  # noqa: F811
    place: Site,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put_in_place(HandMade(date(2026, 11, 19), {"/physics/alice": [6.0] * 5}), monkeypatch)
    Mount.objects.filter(pk=mount.pk).update(good_at=AT - timedelta(minutes=3))
    client: Client = signed_in(place.admin)
    for path in (page_of(place, "/vo-a", "convergence/"), f"/policy/grid/group/{place.uid('/vo-a')}/"):
        assert all(part in origin(client.get(path)) for part in ("vo-a.example", "3 min")), path
    assert not read(client.get(page_of(place, "/physics", "convergence/"))).has("[data-testid=origin]")
    tree = read(client.get("/policy/grid/?at=2026-11-20T12:00:00Z")).item("origin")
    assert "vo-a.example" in (tree.attributes["title"] or "")
    assert "data-value" not in tree.attributes, "nobody knows how old it was"
    assert "3 min" not in (tree.attributes["title"] or "").replace("\N{NO-BREAK SPACE}", " ")
