"""No two pages of a site contradict each other: home, convergence, entries, statements, pictures and REST.

Sites are drawn: trees, usage by day, decay, tolerances, accounts that no rule maps. A rule compares two faces that name
the same fact, by its numbers, and gives what contradicts what; each is a row of `RULES`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from typing import Any

import pytest
from django.test import Client

from apps.accounts.models import User
from apps.pages.overview import cards
from tests.pages.page import Page, read, text_of
from tests.priority_site import AS_OF, Site, build_series, finished, new_site
from tests.rest_site import Caller
from tests.sign_in import sign_in

Json = dict[str, Any]
Found = Iterator[str]
pytestmark = pytest.mark.usefixtures("db")

TODAY = AS_OF.date()
DAYS = 34
WINDOWS: tuple[Json, ...] = (
    {"length_s": None, "aging": "none"},
    {"length_s": None, "aging": "exponential", "half_life_s": 3 * 86_400},
    {"length_s": 90 * 86_400, "aging": "exponential", "half_life_s": 7 * 86_400},
    {"length_s": 10 * 86_400, "aging": "none"},
)
TOLERANCES: tuple[Json, ...] = (
    {"relative": 0.1, "points": 0.5},
    {"relative": 0.1, "points": 0.5, "leaves": {"relative": 0.5, "points": 0.5}},
    {"relative": 0.5, "points": 10.0},
)


def draw_site(seed: int) -> Site:
    """A policy of groups and users, with days of usage that some groups miss, and its series."""
    rng = random.Random(seed)
    site = new_site()
    groups: list[Json] = [
        {
            "name": f"group{g}",
            "kind": "group",
            "shares": rng.choice((1, 2, 5, 20)),
            "children": [
                {"name": f"user{g}{u}", "kind": "user", "shares": rng.choice((1, 1, 3))}
                for u in range(rng.randint(1, 3))
            ],
        }
        for g in range(rng.randint(3, 5))
    ]
    settings = {"window": rng.choice(WINDOWS), "tolerance": rng.choice(TOLERANCES)}
    site.publish(groups, settings, at=AS_OF - timedelta(days=DAYS + 2))
    site.map(at=AS_OF - timedelta(days=DAYS + 2))
    rows = [finished("stranger", "nowhere", 6.6, ago_h=70)]
    for group in groups:
        often, pace = rng.choice((0.0, 0.3, 0.7, 1.0)), 10 * group["shares"] * rng.choice((0.5, 1, 1, 2))
        for user in group["children"]:
            part = user["shares"] / sum(each["shares"] for each in group["children"])
            for ago in range(DAYS):
                if rng.random() < often:
                    hours = pace * part / often * rng.uniform(0.5, 1.5)
                    rows.append(finished(user["name"], group["name"], hours, ago_h=24 * ago + 2))
    site.jobs(rows)
    if rng.random() < 0.5:  # siblings of all change, and with them every target
        groups[0]["shares"] *= 3
        site.publish(groups, settings, at=AS_OF - timedelta(days=6))
    site.recompute()
    build_series(site)
    return site


@dataclass(eq=False)
class Faces:
    """What an administrator reads of the site."""

    site: Site
    client: Client
    rest: Caller

    def page(self, url: str, **query: Any) -> Page:
        return read(self.client.get(url, query))

    @cached_property
    def tree(self) -> Json:
        return dict(self.rest.get(f"policies/{self.site.slug}/tree", {"depth": 9}).json())

    @cached_property
    def children(self) -> list[Json]:
        return list(self.tree["children"])

    @cached_property
    def entries(self) -> list[Json]:
        return [*self.children, *(below for child in self.children for below in child.get("children", []))]

    @cached_property
    def home(self) -> Page:
        cards.last_good.clear()
        return self.page("/", policy=self.site.slug)

    @cached_property
    def convergence(self) -> Page:
        return self.page(f"/policy/{self.site.slug}/convergence/")

    @cached_property
    def convergence_rest(self) -> Json:
        return dict(self.rest.get(f"policies/{self.site.slug}/convergence").json())

    def course(self, entry: Json) -> Page:
        """Convergence with this entry selected."""
        return self.page(f"/policy/{self.site.slug}/convergence/", entry=entry["uid"], range="30")

    def entry(self, entry: Json) -> Page:
        return self.page(f"/policy/{self.site.slug}/n/{entry['uid']}/{entry['name']}/")

    def statement(self, entry: Json) -> Page:
        return self.page(f"/policy/{self.site.slug}/n/{entry['uid']}/{entry['name']}/statements/")


def numbers(text: str) -> list[float]:
    return [float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*\.?\d*", text)]


def counts_agree(faces: Faces) -> Found:
    """Home, convergence and REST count the same entries as on target."""
    states = [child["state"] for child in faces.children if child["state"] != "unknown"]
    wanted = [states.count("on"), len(states)]
    home = numbers(faces.home.one("#verdict-title").attributes["data-value"] or "")
    if states and home != wanted:
        yield f"home counts {home}, REST's states {wanted}"
    heading = numbers(re.sub(r"entries in .*", "", faces.convergence.text("h1")))
    if heading and heading[:2] != wanted:
        yield f"convergence counts {heading}, REST's states {wanted}"
    idle = numbers(faces.home.text('[data-testid="idle"]')) if faces.home.has('[data-testid="idle"]') else [0]
    if states and idle[0] != states.count("idle"):
        yield f"home has {idle} without demand, REST {states.count('idle')}"
    counted = [one for one in faces.convergence_rest["verdict"] if "at_target" in one["key"]]
    last = faces.convergence_rest["days"][-1]
    if [one["values"].get("on") for one in counted] != [last] * len(counted):
        yield "REST's count names another day than its last"


def off_since_agree(faces: Faces) -> Found:
    """Home and convergence have one day since which an entry is off its target."""
    rows = {
        row.attributes["data-uid"]: text_of(row.css_first(".c-why")) for row in faces.home.all("#children tr[data-uid]")
    }
    for child in faces.children:
        if child["state"] not in ("over", "under"):
            continue
        course, home = faces.course(child), rows.get(child["uid"], "")
        found = course.texts('[data-testid="off-since"]')
        days = int(numbers(found[0])[0]) if found else 0
        since = re.search(r"target since (\d+ \w+)", home)
        least = re.search(r"target for at least (\d+)", home)
        if least and not (found and "at least" in found[0]):
            yield f"{child['name']}: home {home}, convergence {found}"
        if since and _day_of(TODAY - timedelta(days=days)) != since[1]:
            yield f"{child['name']}: home {home}, convergence {found}"
        if (since or least) and child["state"] not in home.lower():
            yield f"{child['name']} is {child['state']}, home {home}"
        if not since and not least and days:
            yield f"{child['name']}: home has no day, convergence {found}"


def _day_of(on: date) -> str:
    return f"{on.day} {on:%b}"


def shares_name_their_whole(faces: Faces) -> Found:
    """An entry's page names the group that its shares are a part of, beside a target that is a part of the policy."""
    groups = {child["uid"]: (faces.site.slug, faces.children) for child in faces.children}
    groups |= {
        below["uid"]: (child["name"], child["children"]) for child in faces.children for below in child["children"]
    }
    for entry in faces.entries[:: max(len(faces.entries) // 3, 1)]:
        parent, siblings = groups[entry["uid"]]
        whole = sum(sibling["shares"] or 0 for sibling in siblings)
        (cell,) = [
            text_of(node.css_first("dd")) for node in faces.entry(entry).all(".kpis div") if "policy" in text_of(node)
        ]
        if not cell.endswith(f" {entry['shares']:g} of {whole:g} shares in {parent}"):
            yield f"{entry['name']}: {cell} without its whole, {parent}"
        if abs(numbers(cell)[0] - 100 * entry["target_global"]) > 0.06:
            yield f"{entry['name']}: {cell}, REST {entry['target_global']}"


def wide_tolerances_are_shown(faces: Faces) -> Found:
    """Who is on target but a tenth or more away from it has the tolerance beside the words."""
    for child in faces.children:
        level = faces.page("/", policy=faces.site.slug, level=child["uid"])
        for entry in child["children"]:
            row = level.one(f'tr[data-uid="{entry["uid"]}"]')
            mark = text_of(row.css_first('[data-testid="balance"]'))
            away, usual = abs(entry["actual"] - entry["target"]), max(0.1 * entry["target"], 0.005)
            if entry["state"] == "on" and (away > usual) != ("±" in mark):
                yield f"{entry['name']}: {mark} at {entry['actual']:.3f} of {entry['target']:.3f}"


def unmapped_usage_is_labelled(faces: Faces) -> Found:
    """The decayed amount on home, the raw one on the page that its link leads to: each says which it is."""
    home = faces.home.text('[data-testid="unmapped"] small')
    (page,) = [text for text in faces.page(f"/policy/{faces.site.slug}/mappings/").texts("p") if "core-h" in text]
    if "raw core-hours" not in page:
        yield f"{page} without what it is"
    if not re.search(r"window|half|every|decay", home):
        yield f"{home} without what it is"
    if numbers(home)[0] > numbers(page)[0] + 0.05:
        yield f"{home} decayed and {page} raw"


def statements_fit_targets(faces: Faces) -> Found:
    """A month with a target isn't one without, and a target that moved is counted to have moved."""
    rest = faces.rest
    for entry in faces.entries:
        page = faces.statement(entry)
        lines = rest.get(f"policies/{faces.site.slug}/statements", {"entry": entry["uid"]}).json()
        figures, lead = lines["results"][0]["figures"], page.text("main h1")
        if entry["target"] and "had no target" in lead:
            yield f"{entry['name']}: no target beside {entry['target']}"
        if figures is None or figures.get("target_first") is None:
            continue
        moved = abs(figures["target_first"] - figures["target_last"]) > 1e-6
        if moved != page.has('[data-testid="target-change"]'):
            yield f"{entry['name']}: {figures['target_first']} to {figures['target_last']} without a word"


def superlatives_name_their_set(faces: Faces) -> Found:
    """The picture's furthest entry is the furthest of those that it says it compares."""
    sentence = faces.rest.client.get(f"/policy/{faces.site.slug}/icicle/figures/tree").json()["sentence"]
    off = {
        one["name"]: abs(one["actual"] - one["target"]) for one in faces.entries if one["state"] in ("over", "under")
    }
    named = re.search(r"(\w+) is furthest", sentence)
    if named is None:
        return
    if named[1] != max(off, key=lambda name: off[name]) and off[named[1]] < max(off.values()) - 1e-9:
        yield f"{sentence} but {off}"
    if f"below {faces.site.slug}" not in sentence:
        yield f"{sentence} without its set"


RULES: Mapping[str, Callable[[Faces], Found]] = {
    "entries on target": counts_agree,
    "off target since": off_since_agree,
    "shares and their whole": shares_name_their_whole,
    "tolerance": wide_tolerances_are_shown,
    "unmapped usage": unmapped_usage_is_labelled,
    "statements": statements_fit_targets,
    "superlatives": superlatives_name_their_set,
}


def contradictions(faces: Faces) -> list[str]:
    return [f"{name}: {what}" for name, rule in RULES.items() for what in rule(faces)]


def read_faces(seed: int, monkeypatch: pytest.MonkeyPatch) -> Faces:
    monkeypatch.setenv("FAIRSHARE_CLOCK", (AS_OF + timedelta(seconds=2)).isoformat())
    admin = User.objects.create_superuser("eva", "eva@example.org", "a long pass phrase")
    return Faces(draw_site(seed), sign_in(Client(), admin), Caller(user=admin))


def check(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert contradictions(read_faces(seed, monkeypatch)) == []


@pytest.mark.parametrize("seed", [1, 2])
def test_no_two_pages_of_a_site_contradict_each_other(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check(seed, monkeypatch)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(3, 33))
def test_no_two_pages_of_many_sites_contradict_each_other(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check(seed, monkeypatch)


@dataclass(frozen=True)
class Lie:
    """A face that says something else: what matches `written` in answers of a path that matches `face`."""

    rule: str
    face: str
    written: str
    instead: str


HOME, ENTRY, CONVERGENCE = r"/", r"/policy/grid/n/[^/]+/[^/]+/", r"/policy/grid/convergence/"
LIES = [
    Lie("entries on target", HOME, r'data-value="0 5"', 'data-value="1 5"'),
    Lie("entries on target", HOME, r'data-testid="idle">1', 'data-testid="idle">2'),
    Lie("entries on target", CONVERGENCE, r"<h1>0 of", "<h1>1 of"),
    Lie("entries on target", r"/api/v1/.*/convergence", r'"of":5,"on":"2026-11-19"', '"of":5,"on":"2026-11-18"'),
    Lie("off target since", HOME, r"target since 18 Nov", "target since 17 Nov"),
    Lie("off target since", HOME, r"<small>Over target since", "<small>Under target since"),
    Lie("off target since", HOME, r"Over target since 18 Nov.", ""),
    Lie("off target since", HOME, r"target since 18 Nov", "target for at least 2 days"),
    Lie("off target since", CONVERGENCE, r"for 2 days", "for 3 days"),
    Lie("shares and their whole", ENTRY, r"shares in grid", "shares in grid-2"),
    Lie("shares and their whole", ENTRY, r"<dd>65.2", "<dd>66.2"),
    Lie("tolerance", HOME, r"on target, ±[\d.]+", "on target"),
    Lie("unmapped usage", HOME, r"core-h, half-life 3.d", "core-h"),
    Lie("unmapped usage", r"/policy/grid/mappings/", r"raw core-hours", "core-hours"),
    Lie("unmapped usage", r"/policy/grid/mappings/", r"6\.6 raw", "2.6 raw"),
    Lie("statements", rf"{ENTRY}statements/", r'data-testid="target-change"', ""),
    Lie("statements", rf"{ENTRY}statements/", r"(<h1>\w+) used 104", r"\1 had no target, used 104"),
    Lie("statements", r"/api/v1/.*/statements", r'"target_last":[\d.]+', '"target_last":0.5'),
    Lie("superlatives", r"/policy/grid/icicle/figures/tree", r"group0 is furthest", "group3 is furthest"),
    Lie("superlatives", r"/policy/grid/icicle/figures/tree", r" drawn below grid", ""),
]


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_finds_a_planted_contradiction(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One face at a time says something else of the same site; without that, the rule finds nothing."""
    faces = read_faces(5, monkeypatch)
    assert list(RULES[rule](faces)) == []
    lies = [each for each in LIES if each.rule == rule]
    assert lies
    assert [lie for lie in lies if not list(RULES[rule](with_lie(faces, lie)))] == []


def with_lie(faces: Faces, lie: Lie) -> Faces:
    """The same site, read anew by clients that get other answers."""
    return Faces(faces.site, _lied_to(faces.client, lie), _caller(_lied_to(faces.rest.client, lie)))


def _lied_to(client: Client, lie: Lie) -> Client:
    class LiedTo(Client):
        def request(self, **request: Any) -> Any:
            answer = super().request(**request)
            if re.fullmatch(lie.face, request["PATH_INFO"]):
                answer.content = re.sub(lie.written, lie.instead, answer.content.decode()).encode()
            return answer

    other = LiedTo()
    other.cookies = client.cookies
    return other


def _caller(client: Client) -> Caller:
    caller = Caller()
    caller.client = client
    return caller
