"""Convergence as pages: verdict, figures, panels, tables and CSV; bad periods get an answer."""

from __future__ import annotations

import csv
import io
import re
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.test import Client
from selectolax.lexbor import LexborNode

from apps.accounts.models import User
from apps.policies.models import Policy
from apps.runs.services import work_run_now
from apps.series.daily_series import SeriesState
from apps.series.runs import enqueue_series_build
from tests.examples import first
from tests.grants import make_grant
from tests.pages.grid import SLUG, Grid, make_grid
from tests.pages.page import Page, names_in, read, text_of
from tests.series_by_hand import HandMade, put_in_place
from tests.sign_in import sign_in
from tests.web.shell.test_time_travel import publish

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
LAST = date(2026, 11, 19)
PAGE = f"/policy/{SLUG}/convergence/"
ALL = f"{PAGE}?section=rest"  # with the entries on target
DAYS = 40


@pytest.fixture
def series(grid: Grid, monkeypatch: pytest.MonkeyPatch) -> HandMade:
    """atlas grows past its 60 % since day 30; biomed waits below its 30 %; cms runs nothing."""
    grows = [600.0] * 30 + [700.0 + 60 * n for n in range(10)]
    shrinks = [300.0] * 30 + [100.0] * 10
    made = HandMade(
        LAST,
        {"/atlas/alice": grows, "/biomed/carol": shrinks, "/cms/dave": [0.0] * DAYS},
        waited={"/biomed/carol": [0.0] * 36 + [500.0] * 4},
    )
    return put_in_place(made, monkeypatch)


@pytest.fixture
def eva(grid: Grid, series: HandMade, client: Client) -> Client:
    sign_in(client, grid.admin)
    return client


def text(client: Client, path: str, status: int = 200, headers: dict[str, str] | None = None) -> str:
    answer = client.get(path, headers=headers)
    assert answer.status_code == status, answer.content[:2000]
    return answer.content.decode()


def panel_of(page: Page, name: str) -> LexborNode:
    return next(each for each in page.all("article[data-panel]") if text_of(each.css_first("h3 a")) == name)


def panels_of(client: Client, query: str = "") -> dict[str, dict[str, Any]]:
    """The JSON of all panels by name."""
    answers = [client.get(f"{PAGE}figures/panels?section={key}&{query}").json() for key in ("off", "small", "rest")]
    return {panel["name"]: panel for answer in answers for panel in answer["panels"]}


def heading_of(page: Page) -> tuple[str, ...]:
    """How many of all entries are on target, and the policy, as the title names them."""
    return tuple(re.findall(r"\d+|SweGrid", page.text("h1")))


def fields_of(client: Client, query: str = "") -> dict[str, str]:
    """What the fields of the picture say of themselves, by name."""
    answer = client.get(f"/policy/{SLUG}/icicle/figures/tree{query}").json()
    return {one["name"]: ". ".join(one["lines"]) for one in answer["fields"]}


def targets_of(page: Page) -> dict[str, str]:
    """Path and first number of each row of the picture's table."""
    return {text_of(row.css_first("th a")): text_of(row.css_first("td")) for row in page.all(".fig-table tbody tr")}


def test_the_verdict_names_diverging_and_waiting_entries_with_dates(eva: Client) -> None:
    answer = eva.get(f"{PAGE}?days=90&more=numbers")
    page, found = read(answer), {each.key: each.values for each in answer.context["shown"].verdict}
    assert list(found) == ["at_target_or_idle", "moves_away", "starved"]
    assert found["at_target_or_idle"] == {"n": 1, "of": 3, "on": LAST, "n_on": 0, "n_idle": 1}
    assert found["moves_away"]["name"] == "atlas"
    assert found["starved"] == {"name": "biomed", "n": 4, "since": date(2026, 11, 16)}
    assert page.values("data-key", "[data-testid=convergence-verdict]") == list(found)
    assert heading_of(page)[1:] == ("3", "SweGrid")
    days = read(eva.get(f"{ALL}&days=90&view=raw"))
    assert {panel_of(days, name).attributes["data-state"] for name in ("atlas", "cms")} == {"over", "no_demand"}


def test_heading_line_end_table_and_csv_use_the_newest_snapshot(eva: Client, grid: Grid) -> None:
    page = read(eva.get(f"{ALL}&more=numbers"))
    panels = panels_of(eva)
    rows = {row["name"]: row for row in read_csv(eva, f"{PAGE}days.csv") if row["as_of"]}
    listed = {text_of(row.css_first("th a")): row for row in page.all("#members tbody tr")}
    assert set(panels) == set(rows) == set(listed) == {"atlas", "biomed", "cms"}
    for name, panel in panels.items():
        row = rows[name]
        figure = eva.get(f"{PAGE}figures/over-time?entry={row['entry']}").json()
        line = next(one for one in figure["data"] if one.get("name") == name)
        share = f"{line['y'][-1]:.1f} %"
        used = panel["heading"]["used"].replace("\N{NO-BREAK SPACE}", " ")
        assert line["x"][-1] == "2026-11-20 12:00"
        assert (row["day"], row["as_of"]) == ("2026-11-20", "2026-11-20T12:00:00+00:00")
        assert float(row["actual"]) * 100 == pytest.approx(line["y"][-1], abs=0.01)
        shown = panel_of(page, name)
        assert text_of(shown.css_first("[data-used]")).endswith(used)
        assert used == share
        assert panel["used"][figure["axis"]["now"]] == panel["heading"]["used"]
        balance = f"{panel['heading']['amount']} {panel['heading']['word']}".strip()
        assert text_of(shown.css_first(".bal")) == text_of(listed[name].css_first(".bal")) == balance
        assert share in text_of(listed[name])
        assert shown.attributes["data-state"] == row["state"]
    assert "12:00" in page.text("[data-testid=newest]")
    own = Page(text(eva, f"/policy/{SLUG}/n/{grid.uid('/atlas')}/atlas/convergence/"))
    first = next(row for row in own.texts(".fig-table tbody tr") if row.startswith("20 Nov"))
    assert panels["atlas"]["heading"]["used"].split("\N{NO-BREAK SPACE}")[0] in first
    assert not read(eva.get(f"{PAGE}?view=raw")).has("[data-testid=newest]"), "a day has no value before it is over"


def test_the_balance_at_each_stop_is_that_of_the_numbers_beside_it(eva: Client) -> None:
    """Not that of today: a past day that was on target says so, whatever today is."""
    words: set[str] = set()
    for name, panel in panels_of(eva, "days=90").items():
        stops = zip(panel["used"], panel["target"], panel["balances"], strict=True)
        for used, target, (shape, amount, word) in stops:
            words.add(shape)
            if shape == "nodata":
                assert "–" in (used, target), name
                continue
            actual, goal = (float(re.sub(r"[^\d.]", "", text)) for text in (used, target))
            if shape in ("over", "under"):
                assert float(amount) == pytest.approx(abs(actual - goal), abs=0.051), (name, used, target)
                assert (actual > goal) == (shape == "over"), name
                assert word == shape
            else:
                assert not amount, name
    assert {"over", "under", "idle"} <= words


def test_the_heading_counts_what_the_overview_counts(eva: Client) -> None:
    """Overview, heading and tiles count the same entries now; trends are of days that are over."""
    page, overview = read(eva.get(f"{ALL}&more=numbers")), read(eva.get("/_verdict", headers={"HX-Request": "true"}))
    states = [panel_of(page, name).attributes["data-state"] for name in ("atlas", "biomed", "cms")]
    good = states.count("on")
    assert overview.one("#verdict-title").attributes["data-value"] == f"{good} 3"
    assert heading_of(page) == (str(good), "3", "SweGrid")
    assert "19 Nov" in text_of(page.item("instant"))


def test_a_revision_of_today_is_marked_at_the_newest_point_and_listed(
    eva: Client, grid: Grid, series: HandMade
) -> None:
    series.targets = {"/atlas": [0.6] * DAYS}
    figure = f"{PAGE}figures/over-time?entry={grid.uid('/atlas')}"
    before = panels_of(eva)["atlas"]["heading"]
    number = publish(grid, {"op": "set_shares", "entry": "/cms", "shares": 60}, reason="More for cms.").number
    answer = eva.get(figure).json()
    words = answer["reads"][answer["axis"]["now"]]
    assert words.endswith(f"revision {number}"), "before the recompute"
    grid.recompute()
    page = read(eva.get(f"{PAGE}?more=numbers"))
    assert page.has(f'main a[href*="to={number}"]'), "published in this period"
    after = panels_of(eva)["atlas"]["heading"]
    assert before != after, "60 of 100 before, 60 of 150 now"
    notes = [one["text"] for one in eva.get(figure).json()["layout"]["annotations"]]
    assert [one for one in notes if str(number) in one and "60.0 to 40.0" in one]


def test_starved_and_no_demand_differ_in_text_and_shape(eva: Client) -> None:
    page = read(eva.get(f"{ALL}&days=90&view=raw"))
    biomed, cms = panel_of(page, "biomed"), panel_of(page, "cms")
    assert (biomed.attributes["data-state"], cms.attributes["data-state"]) == ("starved", "no_demand")
    assert (bool(biomed.css(".starved")), bool(biomed.css(".idle"))) == (True, False)
    assert (bool(cms.css(".starved")), bool(cms.css(".idle"))) == (False, True)
    assert text_of(biomed.css_first(".bal")) != text_of(cms.css_first(".bal"))


def test_days_before_the_first_revision_are_marked(eva: Client, series: HandMade) -> None:
    series.revisions = [0] * 10 + [1] * 30
    page = Page(text(eva, f"{PAGE}?days=90"))
    shapes = eva.get(f"{PAGE}figures/over-time?days=90").json()["layout"]["shapes"]
    early = next(one for one in shapes if one.get("fillcolor") == "$surface-3/0.55")
    assert early["x0"] == series.on[0].isoformat()
    assert page.has(".legend .before")


def test_a_section_says_its_scale(eva: Client) -> None:
    page = Page(text(eva, PAGE))
    scales = page.texts("[data-scale]")
    assert scales
    for words, svg in zip(scales, page.all(".tiles .tile:first-child svg.course"), strict=False):
        top = text_of(svg.css("text[text-anchor=end]")[2]).split()[0]
        assert top in words


def test_a_lead_begins_with_the_children_of_the_group(grid: Grid, series: HandMade, client: Client) -> None:
    make_grant(User.objects.create_user("lea"), grid.uid("/atlas"), "manager", at=grid.at)
    sign_in(client, User.objects.get(username="lea"))
    own = read(client.get(ALL))
    assert {text_of(each.css_first("h3 a")) for each in own.all("article[data-panel]")} == {"alice", "bob"}
    assert "atlas" in own.text("h1")
    assert text_of(own.one("#level option[selected]")).startswith("atlas")
    assert "SweGrid" in read(client.get(f"{ALL}&level={grid.uid('/')}")).text("h1")
    to_root = own.one("[data-above]").attributes["href"]
    assert "SweGrid" in read(client.get(f"{PAGE}{to_root}")).text("h1"), "not the own level again"
    assert own.all("#level option")[0].attributes["value"] == str(grid.uid("/")), "nor by choosing it"


def test_a_manager_begins_at_the_top(eva: Client, grid: Grid) -> None:
    page = read(eva.get(PAGE))
    assert "SweGrid" in page.text("h1")
    below = read(eva.get(f"{ALL}&level={grid.uid('/atlas')}"))
    assert {text_of(each.css_first("h3 a")) for each in below.all("article[data-panel]")} == {"alice", "bob"}
    assert text_of(page.all("#level option")[0]).startswith("SweGrid")


def test_the_counting_method_changes_the_numbers(eva: Client) -> None:
    shown = {
        view: text(eva, f"{PAGE}figures/over-time?view={view}&window=3") for view in ("decayed", "windowed", "raw")
    }
    assert len(set(shown.values())) == 3
    assert Page(text(eva, f"{PAGE}?view=windowed")).has("input[name=window][type=number]")


def test_shares_of_the_total_are_smaller_below_the_first_level(eva: Client, grid: Grid) -> None:
    path = f"{PAGE}?level={grid.uid('/atlas')}&more=numbers"
    shown = {of: Page(text(eva, f"{path}&of={of}")).texts("#members [class=num]") for of in ("parent", "total")}
    assert ("50.0 %" in shown["parent"], "30.0 %" in shown["parent"]) == (True, False)
    assert ("50.0 %" in shown["total"], "30.0 %" in shown["total"]) == (False, True)


@pytest.mark.parametrize(
    ("query", "where", "possible"),
    first(
        4,
        [
            ("from=2026-11-02&to=2026-11-01", "to", ["2026-11-02", "2026-11-01", "2026-10-11", "2026-11-19"]),
            ("from=1026-11-02&to=2026-11-01", "from", ["3,660", "2026-10-11", "2026-11-19"]),
            ("from=nonsense", "from", ["nonsense", "20 Nov 2026", "2026-10-11", "2026-11-19"]),
            ("days=24h", "days", ["24h", "7", "30", "90", "365", "all"]),
            ("view=sideways", "view", ["sideways", "decayed", "windowed", "raw"]),
            ("of=everything", "of", ["everything", "parent", "total"]),
            ("view=windowed&window=ten", "window", ["ten"]),
            ("view=windowed&window=99999", "window_s", ["3,660"]),
            ("view=windowed&window=nan", "window_s", ["3,660"]),
            ("from=%00", "from", ["2026-10-11", "2026-11-19"]),
        ],
    ),
)
def test_an_impossible_query_lists_the_possible_values(
    eva: Client, query: str, where: str, possible: list[str]
) -> None:
    answer = eva.get(f"{PAGE}?{query}")
    page = read(answer, 422)
    assert page.item("cannot-be-shown").attributes["data-value"] == where
    text = page.text("[data-testid=cannot-be-shown]")
    assert [each for each in possible if each not in text] == []
    assert (answer.context["asked"].range_, answer.context["shown"].n_finished) == ("30", 30), "the last 30 days"


def test_a_period_without_days_names_the_available_days(eva: Client) -> None:
    page = Page(text(eva, f"{PAGE}?from=2020-01-01&to=2020-02-01"))
    assert not page.has(".course-plot")
    assert names_in(page.text("[data-testid=no-days]"), "2026-10-11", "2026-11-19")


@pytest.mark.parametrize("page", first(3, ["0", "-1", "x", "1e9", "99999999999999999999"]))
def test_a_page_number_that_is_none_is_the_first(eva: Client, page: str) -> None:
    assert len(read(eva.get(f"{ALL}&page={page}")).all("article[data-panel]")) == 3


def test_an_unknown_entry_is_not_found(eva: Client, grid: Grid) -> None:
    text(eva, f"/policy/{SLUG}/n/00000000-0000-0000-0000-000000000001/x/convergence/", 404)
    text(eva, f"/policy/{SLUG}/icicle/?entry=00000000-0000-0000-0000-000000000001", 404)


def test_the_page_says_that_no_days_are_calculated_yet(eva: Client, series: HandMade) -> None:
    series.state = SeriesState()
    page = Page(text(eva, PAGE))
    assert (page.has("[data-testid=no-days-yet]"), page.has(".course-plot")) == (True, False)


def test_the_first_build_shows_its_progress_and_refreshes_the_page(eva: Client, series: HandMade) -> None:
    series.state = SeriesState(run=7, progress=0.42)
    assert 'aria-valuenow="42"' in text(eva, PAGE)
    fragment = eva.get(f"{PAGE}_building", headers={"HX-Request": "true"})
    assert read(fragment).one("#building [role=progressbar]").attributes["aria-valuenow"] == "42"
    assert "42 %" in read(fragment).text("#building")
    assert "HX-Refresh" not in fragment
    series.state = None
    assert eva.get(f"{PAGE}_building", headers={"HX-Request": "true"})["HX-Refresh"] == "true"


def test_days_that_changed_since_are_reported(eva: Client, series: HandMade) -> None:
    series.state = SeriesState(series.on[0], LAST, stale_from_on=date(2026, 11, 12))
    page = Page(text(eva, PAGE))
    assert page.item("stale-days").attributes["data-value"] == "2026-11-12"
    assert "12 Nov 2026" in page.text("[data-testid=stale-days]")


def test_missing_data_is_hatched_and_named(eva: Client, series: HandMade, monkeypatch: pytest.MonkeyPatch) -> None:
    gaps = {series.on[-3]: ("Cluster A",)}
    monkeypatch.setattr("apps.series.convergence.selectors.list_gaps", lambda **_: gaps)
    page = Page(text(eva, ALL))
    shapes = eva.get(f"{PAGE}figures/over-time").json()["layout"]["shapes"]
    assert len([one for one in shapes if one.get("fillcolor") == "$line-strong/0.35"]) == 1
    assert re.findall(r"Cluster A \D*(\d+)", page.text("#gaps")) == ["1"]
    assert len(page.all(".tile .gap")) == 3


def test_tiles_load_in_fragments_of_twenty_four(db: None, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", NOW.isoformat())
    wide = make_grid(NOW, extra_users=40)
    put_in_place(HandMade(LAST, {"/biomed/carol": [5.0] * 30}), monkeypatch)
    sign_in(client, wide.admin)
    query = f"level={wide.uid('/biomed')}&section=rest"
    page = read(client.get(f"{PAGE}?{query}"))
    sections = [len(each.css("article")) for each in page.all(".tiles")]
    assert max(sections) == 24
    link = page.one(".more-tiles a")
    fragment = str(link.attributes["hx-get"])
    assert "page=2" in str(link.attributes["href"])
    more = read(client.get(fragment, headers={"HX-Request": "true"}))
    assert not more.has("[hx-get]")
    assert client.get(fragment).status_code == 303
    names = [text_of(each) for each in (*page.all("article h3 a"), *more.all("article h3 a"))]
    assert len(names) == len(set(names)) == 42, "every member once"


def test_the_children_of_a_group_are_on_a_small_fair_line_on_its_home(eva: Client, grid: Grid) -> None:
    card = Page(text(eva, f"{PAGE}_latest?level={grid.uid('/')}", headers={"HX-Request": "true"}))
    whole = Page(text(eva, PAGE))
    groups = ".fair-groups > .fair-group"
    assert card.each(groups, "data-name") == whole.each(groups, "data-name")
    assert card.each(f"{groups} > a", "aria-label") == whole.each(f"{groups} > a", "aria-label"), "the same numbers"
    assert not card.has(".fig-table, [popovertarget]")
    for address in card.each(f"{groups} > a", "href"):
        assert eva.get(address).status_code == 200, address
    (source,) = card.each("[data-figure=fair-line]", "data-src")
    assert "small=1" in source
    tall, low = (eva.get(address).json()["rooms"][0]["height"] for address in (source.replace("small=1", ""), source))
    assert tall > low
    assert "small" not in str([one["links"] for one in eva.get(source).json()["groups"]])


def test_a_group_without_days_says_what_will_come(grid: Grid, client: Client) -> None:
    sign_in(client, grid.admin)
    card = Page(text(client, f"{PAGE}_latest?level={grid.uid('/atlas')}", headers={"HX-Request": "true"}))
    assert card.has('[data-testid="no-latest"]')
    assert not card.has(".fair")


def test_a_wrong_slug_redirects_to_the_right_one(eva: Client, grid: Grid) -> None:
    uid = grid.uid("/atlas")
    answer = eva.get(f"/policy/{SLUG}/n/{uid}/wrong/convergence/?days=7")
    assert answer["Location"] == f"/policy/{SLUG}/n/{uid}/atlas/convergence/?days=7"


def test_an_entry_over_time_is_shown_alone(eva: Client, grid: Grid) -> None:
    page = Page(text(eva, f"/policy/{SLUG}/n/{grid.uid('/atlas/alice')}/alice/convergence/"))
    assert "alice" in page.text("h1")
    assert page.has(".course-plot svg.course")
    assert not page.has("article")
    days = [row for row in page.texts(".fig-table tbody tr") if "2026" in row]
    assert len(days) >= 30 + 1, "thirty days and the newest snapshot"
    root = eva.get(f"/policy/{SLUG}/n/{grid.uid('/')}/swegrid/convergence/?days=7")
    assert (root.status_code, root["Location"]) == (301, f"{PAGE}?days=7")


def read_csv(client: Client, path: str) -> list[dict[str, str]]:
    answer: Any = client.get(path)
    assert answer.status_code == 200
    assert "attachment" in answer["Content-Disposition"]
    return list(csv.DictReader(io.StringIO(answer.getvalue().decode())))


def test_the_page_of_an_entry_shows_usage_over_time_first(eva: Client, grid: Grid) -> None:
    here = f"/policy/{SLUG}/n/{grid.uid('/atlas')}/atlas/"
    card = read(eva.get(here)).one("#over-time")
    figure = read(eva.get(str(card.attributes["hx-get"]), headers={"HX-Request": "true"})).one("[data-figure]")
    source = str(figure.attributes["data-src"])
    assert source.startswith(f"{here}convergence/figures/over-time?range=30")
    assert eva.get(source).json()["entry"] == str(grid.uid("/atlas"))
    assert not read(eva.get(here, {"at": "2"})).has("#over-time")


def test_the_csv_holds_every_day_of_every_member(eva: Client) -> None:
    rows = read_csv(eva, f"{PAGE}days.csv?days=7")
    assert len([row for row in rows if not row["as_of"]]) == 3 * 7
    assert len([row for row in rows if row["as_of"]]) == 3
    last = {row["name"]: row for row in rows if row["day"] == "2026-11-19"}
    assert float(last["atlas"]["actual"]) + float(last["biomed"]["actual"]) == pytest.approx(1)
    assert last["biomed"]["state"] == "starved"
    assert last["cms"]["state"] == "no_demand"
    assert float(last["atlas"]["deviation_points"]) == pytest.approx(
        (float(last["atlas"]["actual"]) - float(last["atlas"]["target"])) * 100
    )


def test_names_that_look_like_formulas_are_escaped(
    eva: Client, series: HandMade, monkeypatch: pytest.MonkeyPatch
) -> None:
    gaps = {series.on[-1]: ("=cmd()",)}
    monkeypatch.setattr("apps.series.convergence.selectors.list_gaps", lambda **_: gaps)
    rows = read_csv(eva, f"{PAGE}days.csv?days=7")
    assert {row["missing_sources"] for row in rows} == {"", "'=cmd()"}


def test_missing_usage_is_not_shown_as_zero(eva: Client, series: HandMade) -> None:
    series.used = dict.fromkeys(series.used, [0.0] * DAYS)
    rows = read_csv(eva, f"{PAGE}days.csv?days=7")
    assert {row["actual"] for row in rows if not row["as_of"]} == {""}
    page = Page(text(eva, f"{PAGE}?more=numbers"))
    assert page.values("data-key", "[data-testid=convergence-verdict]") == ["nobody_used"]


def test_a_long_period_is_drawn_by_weeks_and_summed_by_days(eva: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    put_in_place(HandMade(LAST, {"/atlas/alice": [5.0] * 900, "/biomed/carol": [5.0] * 900}), monkeypatch)
    answer = eva.get(f"{PAGE}?days=all&more=numbers")
    page = read(answer)
    assert page.has("[data-testid=by-weeks]")
    assert answer.context["shown"].n_finished == 900
    assert "900" in page.text(".kpis")
    figure = eva.get(f"{PAGE}figures/over-time?days=all").json()
    x = next(one for one in figure["data"] if one.get("name"))["x"]
    assert {date.fromisoformat(after) - date.fromisoformat(before) for before, after in pairwise(x[:-1])} == {
        timedelta(days=7)
    }
    assert not read(eva.get(PAGE)).has("[data-testid=by-weeks]")


ICICLE = f"/policy/{SLUG}/icicle/"


def fields_by_path(client: Client, query: str = "") -> dict[str, dict[str, str]]:
    return {row["path"]: row for row in read_csv(client, f"{ICICLE}figures/tree.csv{query}")}


def sizes_of(client: Client, query: str = "") -> dict[str, float]:
    answer = client.get(f"{ICICLE}figures/tree{query}").json()
    return {one["name"]: one["size"] for one in answer["fields"]}


@pytest.mark.parametrize("kind", ["icicle", "treemap"])
def test_the_tree_has_a_table_of_its_fields(eva: Client, grid: Grid, kind: str) -> None:
    page = Page(text(eva, f"{ICICLE}?kind={kind}"))
    whole = fields_of(eva, f"?kind={kind}")
    assert ("60.0" in whole["atlas"], "30.0" in whole["biomed"]) == (True, True)
    assert targets_of(page)["/atlas"] == "60.0 %"
    assert page.has(f".fig-table a[href='?kind={kind}&entry={grid.uid('/atlas')}']")
    query = f"?kind={kind}&entry={grid.uid('/atlas')}&size=actual"
    below = Page(text(eva, f"{ICICLE}{query}"))
    assert "50.0" in fields_of(eva, query)["alice"]
    assert targets_of(below)["/atlas/alice"] == "50.0 %"
    assert "biomed" not in fields_of(eva, query)
    assert page.texts(".fig-controls .path a") == ["SweGrid"]
    assert below.texts(".fig-controls .path a") == ["SweGrid", "atlas"]


def test_an_entry_without_members_is_chosen_within_its_parent(eva: Client, grid: Grid) -> None:
    query = f"?entry={grid.uid('/atlas/alice')}"
    page = Page(text(eva, f"{ICICLE}{query}"))
    assert page.texts(".fig-controls .path a") == ["SweGrid", "atlas", "alice"]
    assert {"atlas", "alice", "bob"} <= set(fields_of(eva, query))
    assert page.text("aside.panel h2") == "alice"


def test_sizes_are_products_of_targets_below_the_shown_root(eva: Client, grid: Grid) -> None:
    """cms is a tenth of the whole; from its own top its members divide all of it."""
    tree = sizes_of(eva)
    assert tree["cms"] == pytest.approx(0.1)
    assert tree["dave"] == pytest.approx(0.05)
    assert sizes_of(eva, f"?entry={grid.uid('/cms')}")["dave"] == pytest.approx(0.5)


def test_without_usage_the_figure_by_usage_is_replaced_by_a_message(eva: Client, grid: Grid) -> None:
    answer = eva.get(f"{ICICLE}figures/tree?entry={grid.uid('/cms')}&size=actual").json()
    assert answer["empty"] == answer["sentence"] != ""
    assert answer["data"] == []
    page = Page(text(eva, f"{ICICLE}?entry={grid.uid('/cms')}&size=actual"))
    assert page.texts(".fig-say:not([hidden])") == [], "shown once"
    assert page.has("a[data-choice=size-target]"), "from here to the targets"


@pytest.mark.parametrize("query", ["kind=pie", "size=price", "color=red", "entry=x"])
def test_an_invalid_query_is_answered_in_place_of_the_figure(eva: Client, query: str) -> None:
    page = Page(text(eva, f"{ICICLE}?{query}", 422))
    assert page.has(".fig-state a[href='?']")
    assert page.text("#fig-tree h2")
    assert eva.get(f"{ICICLE}figures/tree?{query}").status_code == 422


@pytest.mark.parametrize(("at", "status"), [("1990-01-01T00:00:00Z", 404), ("0", 404), ("-1", 422), ("1e999", 422)])
def test_an_impossible_instant_is_refused_with_a_message_in_the_figure(eva: Client, at: str, status: int) -> None:
    answer = eva.get(f"{ICICLE}figures/tree?at={at}", headers={"Accept": "application/json"})
    assert answer.status_code == status
    assert answer.json()["detail"]
    assert eva.get(f"{ICICLE}?at={at}").status_code == status
    assert eva.get(f"{ICICLE}figures/tree.csv?at={at}").status_code == status


def test_the_icicle_of_a_past_instant_is_labelled(eva: Client) -> None:
    assert Page(text(eva, f"{ICICLE}?at=2")).item("time-bar").attributes["data-value"] == "2"


def test_the_icicle_as_csv(eva: Client) -> None:
    rows = fields_by_path(eva)
    assert {"/", "/atlas", "/atlas/alice"} <= set(rows)
    assert rows["/atlas"]["target"] == "0.6"


@pytest.fixture
def viewer(grid: Grid, series: HandMade, client: Client) -> Client:
    """Sees groups by their sums: with two people each, all of them are suppressed."""
    Policy.objects.update(visibility="path")
    user = User.objects.create_user("vera")
    make_grant(user, grid.tree.uuid(0), "viewer", at=grid.at)
    sign_in(client, user)
    return client


def test_small_groups_are_not_shown_and_never_as_zero(viewer: Client) -> None:
    page = Page(text(viewer, ALL))
    assert page.each("article[data-panel]", "data-state") == ["hidden"] * 3
    assert {text for panel in panels_of(viewer).values() for text in panel["used"]} == {"–"}
    for uid in page.each("article[data-panel]", "data-uid"):
        figure = viewer.get(f"{PAGE}figures/over-time?entry={uid}").json()
        line = next(one for one in figure["data"] if one.get("name"))
        assert set(line["y"]) == {None}
    rows = read_csv(viewer, f"{PAGE}days.csv?days=7")
    assert {row["suppressed"] for row in rows} == {"1"}
    assert {row["actual"] for row in rows} == {""}
    assert {row["state"] for row in rows} == {""}
    assert float(rows[0]["target"]) > 0, "targets are shown"


def test_viewers_of_totals_see_no_member_names(viewer: Client, grid: Grid) -> None:
    text(viewer, f"/policy/{SLUG}/n/{grid.uid('/atlas/alice')}/alice/convergence/", 404)
    assert "alice" not in text(viewer, f"/policy/{SLUG}/n/{grid.uid('/atlas')}/atlas/convergence/")


def test_a_user_sees_the_own_path_to_the_root(grid: Grid, series: HandMade, client: Client) -> None:
    Policy.objects.update(visibility="path")
    sign_in(client, grid.alice)
    page = text(client, f"/policy/{SLUG}/n/{grid.uid('/atlas/alice')}/alice/convergence/")
    assert Page(page).has(".course-plot")
    assert "bob" not in page


def test_the_tree_figure_contains_no_invisible_names_or_numbers(viewer: Client, grid: Grid) -> None:
    for kind in ("icicle", "treemap"):
        query = f"?kind={kind}&entry={grid.uid('/atlas')}"
        assert "alice" not in text(viewer, f"{ICICLE}figures/tree{query}")
        assert set(fields_by_path(viewer, query)) <= {"/", "/atlas", "/biomed", "/cms"}
        assert "alice" not in text(viewer, f"{ICICLE}?kind={kind}")
        assert "60.0" in fields_of(viewer, f"?kind={kind}")["atlas"], "targets may be seen"
    rows = fields_by_path(viewer)
    assert {(row["actual"], row["deviation_points"], row["state"]) for row in rows.values() if row["path"] != "/"} == {
        ("", "", "unknown")
    }
    by_use = viewer.get(f"{ICICLE}figures/tree?size=actual").json()
    assert by_use["empty"], "the size of a field would show what isn't shown"


def test_only_the_own_path_is_drawn_and_siblings_are_combined(grid: Grid, series: HandMade, client: Client) -> None:
    Policy.objects.update(visibility="path")
    sign_in(client, grid.alice)
    answer = text(client, f"{ICICLE}figures/tree?entry={grid.uid('/atlas/alice')}")
    assert "alice" in answer
    assert "bob" not in answer


def test_the_page_shows_the_series_built_from_records(grid: Grid, client: Client) -> None:
    """On 19 November atlas used 400 of the 920 cores that ran, and nothing else ever did."""
    work_run_now(enqueue_series_build(Policy.objects.get(slug=SLUG), at=NOW).pk)
    sign_in(client, grid.admin)
    rows = {row["name"]: row for row in read_csv(client, f"{PAGE}days.csv?days=7&view=raw")}
    assert float(rows["atlas"]["actual"]) == pytest.approx(400 / 920, abs=1e-9)
    assert float(rows["biomed"]["actual"]) == pytest.approx(520 / 920, abs=1e-9)
    assert rows["cms"]["state"] == "no_demand"
    assert rows["atlas"]["day"] == "2026-11-19"
    assert heading_of(Page(text(client, PAGE)))[1:] == ("3", "SweGrid")


def test_the_tree_has_a_trend_for_each_entry_with_days(eva: Client) -> None:
    page = text(eva, f"/policy/{SLUG}/")
    assert page.count('<svg class="spark') >= 3
    shown = Page(page).texts(".c-trend .sr")
    assert len(shown) >= 3
    assert all(re.fullmatch(r"[\d.]+ % \D+ [\d.]+ % \D+ 14\D+", words) for words in shown)
    assert '<svg class="spark' not in text(eva, f"/policy/{SLUG}/?at=2")


def test_every_entry_has_a_row_of_cells_below_the_course(
    long_grid: Grid, db: None, monkeypatch: pytest.MonkeyPatch, client: Client
) -> None:
    put_in_place(HandMade(LAST, {"/biomed/carol": [5.0] * DAYS, "/biomed/helper0001": [1.0] * DAYS}), monkeypatch)
    sign_in(client, long_grid.admin)
    page = read(client.get(f"{PAGE}?level={long_grid.uid('/biomed')}&view=raw"))
    assert len(page.all("#fig-heat tbody tr")) == 32
    assert len(page.all(".heat-names .wide")) == len(page.all(".heat-now text")) == 32
    cells = [str(path.attributes["d"]).count("M") for path in page.all(".heat-cells path")]
    assert sum(cells) == 32 * 30, "one for each entry and day"
    assert page.each("[data-more]", "data-more") == ["numbers"]
    fragment = client.get(f"{PAGE}_more?level={long_grid.uid('/biomed')}&more=numbers", headers={"HX-Request": "true"})
    assert read(fragment).has("#members")
    alone = read(client.get(f"{PAGE}?level={long_grid.uid('/biomed/carol')}&view=raw"))
    assert not alone.has("#fig-heat")


def test_only_sums_are_shown_before_any_day_is_built(grid: Grid, client: Client) -> None:
    """For a reader of sums of groups, of a policy whose daily series isn't built."""
    Policy.objects.filter(slug=SLUG).update(visibility=Policy.Visibility.PATH)
    make_grant(
        User.objects.create_user("vera"),
        grid.uid("/"),
        "viewer",
        verbs=["view_aggregate"],
        at=grid.at,
        reason="sums",
    )
    sign_in(client, User.objects.get(username="vera"))
    path = f"/policy/{SLUG}/n/{grid.uid('/atlas')}/atlas/convergence/_over-time"
    found = text(client, path, headers={"HX-Request": "true"})
    assert "fig-state" in found
