"""Convergence by REST: series, figures, states and sentences; what is suppressed is null, and says so."""

from __future__ import annotations

from datetime import date

import pytest

from apps.pages.convergence.api import PAGE
from tests.rest_site import Caller, refused
from tests.series_by_hand import HandMade, put_in_place
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture

LAST = date(2026, 11, 19)
PATH = "policies/grid/convergence"


@pytest.fixture
def series(computed: Site, monkeypatch: pytest.MonkeyPatch) -> HandMade:
    used = {"/physics/alice": [6.0] * 20, "/physics/bob": [1.0] * 20, "/biology/carol": [3.0] * 16 + [0.0] * 4}
    made = HandMade(LAST, used, targets={"/physics": [0.5] * 5 + [0.6] * 15, "/biology": [0.5] * 5 + [0.4] * 15})
    return put_in_place(made, monkeypatch)


def test_children_of_the_root_have_days_figures_and_verdict(admin: Caller, series: HandMade) -> None:
    answer = admin.get(PATH).json()
    assert answer["days"][0] == "2026-10-31"
    assert answer["days"][-1] == "2026-11-19"
    assert (answer["from"], answer["to"]) == ("2026-10-21", "2026-11-19")
    assert [one["name"] for one in answer["results"]] == ["biology", "physics"]
    biology = answer["results"][0]
    assert biology["state"][-1] == "no_demand"
    assert biology["actual"][0] == pytest.approx(0.3)
    assert biology["deviation_points"][0] == pytest.approx(-20.0)
    assert biology["suppressed"] is False
    assert answer["verdict"][0]["key"] == "at_target_or_idle"
    assert all(set(sentence) == {"key", "values", "text"} for sentence in answer["verdict"])
    assert answer["figures"]["n_days"] == 20
    assert answer["figures"]["mean_deviation_points"] > 0
    assert answer["built"] == {
        "first_on": "2026-10-31",
        "through_on": "2026-11-19",
        "stale_from_on": None,
        "run": None,
        "progress": None,
        "waiting": None,
        "hours_from_at": None,
        "hours_through_at": None,
    }


def test_a_deviation_that_never_halves_has_an_infinite_half_life(admin: Caller, series: HandMade) -> None:
    series.used = {"/physics/alice": [5.0] * 20, "/biology/carol": [5.0] * 20}
    figures = admin.get(PATH, {"view": "raw"}).json()["figures"]
    assert figures["half_time_days"] == "Infinity"
    assert figures["half_time_revision"] == 1


def test_weeks_are_every_seventh_day_counted_from_the_last(admin: Caller, series: HandMade) -> None:
    daily, weekly = (admin.get(PATH, {"step": step}).json() for step in ("day", "week"))
    assert weekly["days"] == ["2026-11-05", "2026-11-12", "2026-11-19"]
    assert weekly["results"][0]["actual"] == daily["results"][0]["actual"][-15::7]
    assert weekly["figures"] == daily["figures"], "figures are of every day"


def test_an_entry_is_selected_by_path_or_uid_and_a_leaf_returns_itself(
    admin: Caller, series: HandMade, computed: Site
) -> None:
    below = admin.get(PATH, {"entry": "/physics"}).json()
    assert [one["name"] for one in below["results"]] == ["alice", "bob"]
    assert below["itself"] is False
    leaf = admin.get(PATH, {"entry": str(computed.uid("/physics/bob")), "of": "total"}).json()
    assert leaf["itself"] is True
    assert [one["name"] for one in leaf["results"]] == ["bob"]
    assert leaf["results"][0]["actual"][0] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("asked", "status", "code", "where", "found"),
    [
        ({"from": "2026-11-02", "to": "2026-11-01"}, 422, "period", "to", "swap them"),
        ({"from": "1026-11-02", "to": "2026-11-01"}, 422, "period", "from", "the limit is 3,660"),
        ({"from": "soon"}, 400, "period", "from", "Data available from 2026-10-31 to 2026-11-19"),
        ({"view": "sideways"}, 400, "invalid", "view", "not a valid choice"),
        ({"window_s": "nan"}, 400, "invalid", "window_s", "valid number"),
        ({"window_s": "1e30"}, 400, "invalid", "window_s", "less than or equal to 316224000"),
        ({"cursor": "!!"}, 400, "bad_cursor", "cursor", "use its `next`"),
        ({"step": "year"}, 400, "invalid", "step", "not a valid choice"),
        ({"tolerance": "1"}, 400, "unknown_field", "tolerance", "is not known here"),
    ],
)
def test_impossible_queries_are_refused_with_the_field(
    admin: Caller, series: HandMade, asked: dict[str, str], status: int, code: str, where: str, found: str
) -> None:
    answer = admin.get(PATH, asked)
    assert refused(answer) == (status, code, [where])
    assert found in answer.json()["detail"]


def test_unknown_and_invisible_entries_are_answered_alike(series: HandMade, computed: Site) -> None:
    ben = Caller(user=computed.ben)
    hidden = ben.get(PATH, {"entry": str(computed.uid("/physics/bob"))})
    missing = ben.get(PATH, {"entry": "00000000-0000-0000-0000-000000000001"})
    assert hidden.status_code == missing.status_code == 404
    assert hidden.json()["detail"] == missing.json()["detail"]


def test_hidden_siblings_are_null_and_not_zero(series: HandMade, computed: Site) -> None:
    """Pia leads physics: biology isn't hers to see, and what physics used of the whole is."""
    answer = Caller(user=computed.pia).get(PATH).json()
    assert [one["name"] for one in answer["results"]] == ["physics"]
    assert answer["results"][0]["actual"][-1] is not None


def test_a_limited_token_gets_its_subtree(series: HandMade, computed: Site) -> None:
    token = computed.token("policies:read", policy_slug="grid", subtree_uid=computed.uid("/biology"))
    answer = Caller(token=token).get(PATH).json()
    assert answer["name"] == "biology"


def test_many_members_are_paged(admin: Caller, series: HandMade, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.pages.convergence.api.PAGE", 1)
    assert PAGE == 24
    first = admin.get(PATH).json()
    second = admin.get(PATH, {"cursor": first["next"]}).json()
    assert [one["name"] for page in (first, second) for one in page["results"]] == ["biology", "physics"]
    assert second["next"] is None
