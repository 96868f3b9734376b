"""No two faces of a site contradict each other: home, convergence, entries, statements, pictures, the palette, metrics,
queues and REST.

Sites are drawn: trees, usage by day, decay, tolerances, accounts that no rule maps, a queue. A rule compares two faces
that name the same fact, by its numbers, and gives what contradicts what; each is a row of `RULES`.
"""

from __future__ import annotations

import csv
import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cached_property
from io import StringIO
from itertools import product
from typing import Any

import pytest
from django.http import StreamingHttpResponse
from django.test import Client

from apps.accounts.actor import COMMAND, SYSTEM
from apps.accounts.models import Account, User
from apps.accounts.services import NewToken, make_token
from apps.contrib.schedulers.services import connect_scheduler
from apps.pages.overview import cards
from apps.priorities.level_facts import IDLE_STATES
from apps.priorities.serving import store
from tests.contrib.schedulers.reports import job, report
from tests.examples import first
from tests.pages.page import Page, read, text_of
from tests.priority_site import AS_OF, Site, build_series, finished, new_site
from tests.rest_site import Caller
from tests.sign_in import sign_in

Json = dict[str, Any]
Found = Iterator[str]
pytestmark = pytest.mark.usefixtures("db")

HTMX = {"HX-Request": "true"}
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
    store.poll()
    users = [(user["name"], group["name"]) for group in groups for user in group["children"]]
    list_queue(site, random.Random(1000 + seed), users)
    return site


def list_queue(site: Site, rng: random.Random, users: list[tuple[str, str]]) -> None:
    """What the agent of a scheduler of two partitions lists: some hold their jobs, and no two priorities are equal."""
    orders = {"mode": "on", "namespace": "c1"}
    connect_scheduler(policy_slug=site.slug, name="c1", settings=orders, at=AS_OF, actor=COMMAND)
    owner, scopes = User.objects.get(username="eva"), ("schedulers", "priorities:read")
    new = NewToken(name="agent", scopes=scopes, user=owner, policy_slug=site.slug)
    _token, text = make_token(new, at=AS_OF, actor=SYSTEM)
    rows = []
    for number, terms in enumerate(rng.sample(range(90_000), rng.randint(0, 12))):
        user, group = rng.choice(users)
        held = {"state": "held", "reason": "JobHeldUser"} if rng.random() < 0.2 else {}
        rows.append(job(str(500 + number), user, group, site=terms, partition=rng.choice(("batch", "gpu")), **held))
    answer = Caller(token=text).post("schedulers/c1/passes", report(queue=rows))
    assert answer.status_code == 200, answer.content


@dataclass(eq=False)
class Faces:
    """What an administrator reads of the site."""

    site: Site
    client: Client
    rest: Caller
    lie: Lie | None = None
    people: dict[str, tuple[Client, Client]] = field(default_factory=dict)  # by account: for pages, and for REST

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

    def own(self, account: str) -> tuple[Client, Caller]:
        """A user whose account this is."""
        if account not in self.people:
            user, _made = User.objects.get_or_create(username=account)
            Account.objects.filter(user_name=account).update(person=user)
            self.people[account] = self._retold(sign_in(Client(), user)), self._retold(Caller(user=user).client)
        pages, rest = self.people[account]
        return self._retold(pages), _caller(self._retold(rest))

    def _retold(self, client: Client) -> Client:
        return client if not isinstance(self.client, Retold) else Retold(client, self.lie)

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
    heading = numbers(re.sub(r" in .*", "", faces.convergence.text("h1")))
    if heading and heading[:2] != wanted:
        yield f"convergence counts {heading}, REST's states {wanted}"
    idle = numbers(faces.home.text('[data-testid="idle"]')) if faces.home.has('[data-testid="idle"]') else [0]
    if states and idle[0] != states.count("idle"):
        yield f"home has {idle} without demand, REST {states.count('idle')}"
    counted = [one for one in faces.convergence_rest["verdict"] if "at_target" in one["key"]]
    last = faces.convergence_rest["days"][-1]
    if [one["values"].get("on") for one in counted] != [last] * len(counted):
        yield "REST's count names another day than its last"
    day = [each["state"][-1] for each in faces.convergence_rest["results"]]
    for one in counted:
        parts = [one["values"].get("n_on", 0), one["values"].get("n_idle", 0)]
        if parts != [day.count("on"), sum(state in IDLE_STATES for state in day)]:
            yield f"REST counts {parts} of a day that has {day}"


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


def users_have_one_rank(faces: Faces) -> Found:
    """The tree, an explanation, the entry's page and the search name one rank and one share of each user."""
    for entry in [below for child in faces.children for below in child["children"]]:
        name, rank = entry["name"], entry["rank"]
        explained = faces.rest.get(f"policies/{faces.site.slug}/explain", {"account": name}).json()["results"][0]
        if explained["rank"] != rank:
            yield f"{name}: rank {rank} in the tree, {explained['rank']} in its explanation"
        step = explained["steps"][-1]
        for fact in ("actual", "target", "state"):
            if step[fact] != entry[fact]:
                yield f"{name}: {fact} {entry[fact]} in the tree, {step[fact]} in its explanation"
        page = faces.entry(entry)
        if rank is not None and numbers(page.text("#rank"))[0] != rank:
            yield f"{name}: rank {rank} in the tree, {page.text('#rank')} on its page"
        if entry["actual"] is not None and abs(numbers(page.text("#actual"))[0] - 100 * entry["actual"]) > 0.06:
            yield f"{name}: used {entry['actual']} in the tree, {page.text('#actual')} on its page"


def own_answers_agree(faces: Faces) -> Found:
    """What a user reads of the own account is what an administrator reads of it: on My priority and by REST."""
    for entry in [below for child in faces.children for below in child["children"]]:
        name = entry["name"]
        client, rest = faces.own(name)
        line = rest.get("me").json()["accounts"][0]
        if (line["rank"], line["entry_uid"]) != (entry["rank"], entry["uid"]):
            yield f"{name}: rank {entry['rank']} in the tree, {line['rank']} of its own"
        heading = read(client.get("/me/priority/", {"policy": faces.site.slug})).text("h1")
        shown = numbers(heading)
        if shown and shown[0] != entry["rank"]:
            yield f"{name}: {heading}, rank {entry['rank']} in the tree"
        steps = rest.get("me/explain").json()["accounts"][0]["steps"]
        if (steps[-1]["state"], steps[-1]["actual"]) != (entry["state"], entry["actual"]):
            yield f"{name}: {steps[-1]['state']} of its own, {entry['state']} in the tree"


def asked(faces: Faces, question: str, client: Client | None = None) -> list[str]:
    """The palette's answers: title and note of each. client: of another reader."""
    query = {"q": question, "policy": faces.site.slug}
    page = read((client or faces.client).get("/search/_results", query, headers=HTMX))
    return [text_of(option) for option in page.all("[data-key=answers] [role=option]")]


def distance_of(entry: Json) -> float:
    """|actual − target| in points."""
    return 100 * abs(float(entry["actual"]) - float(entry["target"]))


def palette_answers_agree(faces: Faces) -> Found:
    """Who is over or under target, of each level: the states of the tree, their number, order, points and ranks."""
    levels = [(faces.site.slug, faces.children), *((child["name"], child["children"]) for child in faces.children)]
    for (name, entries), side in product(levels, ("over", "under")):
        of_level = "" if entries is faces.children else f" in {name}"
        first, *others = asked(faces, f"who is {side} target{of_level}") or [""]
        off = sorted((entry for entry in entries if entry["state"] == side), key=lambda entry: -distance_of(entry))
        known = sum(entry["state"] != "unknown" for entry in entries)
        if numbers(first.partition(" in ")[0]) != [len(off), known]:
            yield f"the palette has {first}, the tree {len(off)} of {known} {side} in {name}"
        for entry, text in zip(off[: len(others)], others, strict=True):
            wanted = [entry["rank"], round(distance_of(entry), 1)]
            shown = numbers(text.removeprefix(entry["name"]))
            if not text.startswith(entry["name"]) or shown[:1] != wanted[:1] or abs(shown[1] - wanted[1]) > 0.101:
                yield f"the palette has {text}, the tree {entry['name']} with {wanted}"


def search_has_the_ranks_of_the_tree(faces: Faces) -> Found:
    """Groups and users are found by REST with the rank that they have in the tree."""
    for entry in faces.entries:
        groups = faces.rest.get("search", {"q": entry["name"]}).json()["groups"]
        hits = [hit for group in groups for hit in group["hits"] if hit["entry"] == entry["uid"]]
        if [hit["rank"] for hit in hits] != [entry["rank"]]:
            yield f"{entry['name']}: {[hit['rank'] for hit in hits]} in the search, {entry['rank']} in the tree"


def metrics_agree(faces: Faces) -> Found:
    """The gauges of entries outside their tolerance are the numbers of the tree's states."""
    text = faces.client.get("/metrics").content.decode()
    for side in ("over", "under"):
        gauge = re.search(rf'entries_out_of_band{{policy="{faces.site.slug}",side="{side}"}} ([0-9.]+)', text)
        wanted = sum(entry["state"] == side for entry in faces.entries)
        if gauge is None or float(gauge[1]) != wanted:
            yield f"metrics have {gauge and gauge[1]} {side}, the tree {wanted}"


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


def months_of(faces: Faces, entry: Json) -> Json:
    """REST's statement of this month."""
    query = {"entry": entry["uid"]}
    answer = faces.rest.get(f"policies/{faces.site.slug}/statements", query).json()
    return dict(answer["results"][0]["figures"] or {})


AMOUNTS = ("entitled", "used", "lent", "missed", "unclear", "borrowed")


def entitlements_agree(faces: Faces) -> Found:
    """A statement's amounts on its page, in its file and in REST; siblings are entitled to all that they used."""
    levels = [faces.children, *(child["children"] for child in faces.children)]
    for entries in levels:
        figures = [months_of(faces, entry) for entry in entries]
        known = [each for each in figures if each]
        entitled, used = (sum(each[name] for each in known) for name in ("entitled", "used"))
        if all(each["n_days"] == known[0]["n_days"] for each in known) and abs(entitled - used) > 1e-6 * max(used, 1):
            yield f"{[entry['name'] for entry in entries]} are entitled to {entitled} of {used}"
        for entry, stated in zip(entries, figures, strict=True):
            if stated:
                yield from _statement_contradicts(faces, entry, stated)


def _statement_contradicts(faces: Faces, entry: Json, stated: Json) -> Found:
    page, name = faces.statement(entry), entry["name"]
    shown = [text_of(node) for node in page.all("dl.stated dd.num")][: len(AMOUNTS)]
    for amount, text in zip(AMOUNTS, shown, strict=True):
        if abs(numbers(text)[0] - stated[amount] / 3600) > 0.5 + 1e-9:
            yield f"{name}: {amount} {text} on its page, REST {stated[amount] / 3600}"
    heading = re.search(r"used ([\d,.]+)", page.text("h1"))
    if stated["entitled"] > 0 and (heading is None or abs(_number(heading[1]) - 100 * _part(stated)) > 0.51):
        yield f"{name}: {page.text('h1')}, REST {_part(stated)}"
    (file, *_files) = [link for node in page.all("main a") if "csv" in (link := node.attributes.get("href") or "")]
    (stated_in_file, *_others) = csv.DictReader(StringIO(faces.client.get(file).getvalue().decode("utf-8-sig")))
    for amount in AMOUNTS:
        cell = stated_in_file[f"{amount}_h"]
        if abs(float(cell) - stated[amount] / 3600) > 1e-6 * max(stated["used"], 1):
            yield f"{name}: {amount} {cell} in its file, REST {stated[amount] / 3600}"


def _part(stated: Json) -> float:
    return float(stated["used"] / stated["entitled"])


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def places_are_of_one_queue(faces: Faces) -> Found:
    """A job's place: in REST, on the card, in the sentences and in the palette, of the jobs that compete with it."""
    queue = faces.rest.get("schedulers/c1/queue", {"limit": 100}).json()["results"]
    for entry in [below for child in faces.children for below in child["children"]]:
        client, rest = faces.own(entry["name"])
        jobs = rest.get("me/waiting-jobs", {"policy": faces.site.slug}).json()["jobs"]
        card = read(client.get("/me/priority/_waiting", {"policy": faces.site.slug}, headers=HTMX))
        rows = {text_of(row.css_first("th a")): row for row in card.all("tbody tr")}
        for own in jobs:
            ahead = [each for each in queue if each["partition"] == own["partition"] and each["state"] == "pending"]
            place = sum(each["priority"] > _priority(queue, own["job"]) for each in ahead) + 1
            wanted = (None, own["of"]) if own["is_held"] else (place, len(ahead))
            if (own["position"], own["of"]) != wanted:
                yield f"job {own['job']}: {own['position']} of {own['of']} in REST, {wanted} by the queue"
            cell = numbers(text_of(rows[own["job"]].css_first('[data-label="Place"]'))) if own["job"] in rows else []
            if not own["is_held"] and cell[:2] != [*wanted]:
                yield f"job {own['job']}: {cell} on the card, {wanted} by the queue"
        first = next((own for own in jobs if not own["is_held"]), None)
        if first is None:
            continue
        (line,) = rest.get("me").json()["accounts"]
        sentences = [one for one in line["when"] if one["key"].startswith("queue.first")]
        if [(one["values"]["position"], one["values"]["of"]) for one in sentences] != [
            (first["position"], first["of"])
        ]:
            yield f"{entry['name']}: {sentences}, its first job is {first['position']} of {first['of']}"
        answers = [text for text in asked(faces, "why does my job wait", client) if f"job {first['job']} " in text]
        wanted_text = f"place {first['position']} of {first['of']} in {first['partition']}"
        if not answers or wanted_text not in answers[0]:
            yield f"the palette has {answers}, REST {wanted_text}"


def _priority(queue: list[Json], number: str) -> float:
    (priority,) = [each["priority"] for each in queue if each["job"] == number]
    return float(priority)


def percentages_name_their_whole(faces: Faces) -> Found:
    """A field of the treemap is a part of the policy, a target in the palette one of its group: each says of what."""
    figure = faces.rest.client.get(f"/policy/{faces.site.slug}/icicle/figures/tree").json()
    titles = [column["title"] for column in figure["table"]["columns"]]
    cells = {row[0]: dict(zip(titles, row, strict=True)) for row in figure["table"]["rows"]}
    for child in faces.children:
        for entry in [child, *child["children"]]:
            name, whole = entry["name"], faces.site.slug if entry is child else child["name"]
            (text, *_others) = [each for each in asked(faces, f"{name} 12 %") if each.startswith(f"Set {name} ")] or [
                ""
            ]
            note = re.search(r"now ([\d.]+)\s?% of ([\w-]+);", text)
            if note is None or note[2] != whole or abs(_number(note[1]) - 100 * entry["target"]) > 0.06:
                yield f"the palette has {text!r}, the tree {entry['target']} of {whole}"
            path = f"/{name}" if entry is child else f"/{child['name']}/{name}"
            cell = cells[path].get(f"Target of {faces.site.slug}", "nothing 0") if path in cells else None
            if cell is not None and abs(numbers(cell)[0] - 100 * entry["target_global"]) > 0.06:
                yield f"{path}: {cell} of {faces.site.slug} in the treemap, REST {entry['target_global']}"


RULES: Mapping[str, Callable[[Faces], Found]] = {
    "entries on target": counts_agree,
    "off target since": off_since_agree,
    "shares and their whole": shares_name_their_whole,
    "tolerance": wide_tolerances_are_shown,
    "unmapped usage": unmapped_usage_is_labelled,
    "statements": statements_fit_targets,
    "superlatives": superlatives_name_their_set,
    "users": users_have_one_rank,
    "own answers": own_answers_agree,
    "palette": palette_answers_agree,
    "search": search_has_the_ranks_of_the_tree,
    "metrics": metrics_agree,
    "entitlements": entitlements_agree,
    "places in a queue": places_are_of_one_queue,
    "percentages and their whole": percentages_name_their_whole,
}


def contradictions(faces: Faces) -> list[str]:
    return [f"{name}: {what}" for name, rule in RULES.items() for what in rule(faces)]


def read_faces(seed: int, monkeypatch: pytest.MonkeyPatch) -> Faces:
    monkeypatch.setenv("FAIRSHARE_CLOCK", (AS_OF + timedelta(seconds=2)).isoformat())
    admin = User.objects.create_superuser("eva", "eva@example.org", "a long pass phrase")
    return Faces(draw_site(seed), sign_in(Client(), admin), Caller(user=admin))


def check(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert contradictions(read_faces(seed, monkeypatch)) == []


@pytest.mark.deep
@pytest.mark.parametrize("seed", first(1, range(1, 33)))
def test_no_two_pages_of_a_site_contradict_each_other(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check(seed, monkeypatch)


@dataclass(frozen=True)
class Lie:
    """A face that says something else: what matches `written` in answers of a path that matches `face`."""

    rule: str
    face: str
    written: str
    instead: str


HOME, ENTRY, CONVERGENCE = r"/", r"/policy/grid/n/[^/]+/[^/]+/", r"/policy/grid/convergence/"
STATEMENT, TREEMAP = rf"{ENTRY}statements/", r"/policy/grid/icicle/figures/tree"
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
    Lie("statements", STATEMENT, r'data-testid="target-change"', ""),
    Lie("statements", STATEMENT, r"(<h1>\w+) used 104", r"\1 had no target, used 104"),
    Lie("statements", r"/api/v1/.*/statements", r'"target_last":[\d.]+', '"target_last":0.5'),
    Lie("superlatives", TREEMAP, r"group0 is furthest", "group3 is furthest"),
    Lie("superlatives", TREEMAP, r" drawn below grid", ""),
    Lie("users", r"/api/v1/policies/grid/explain", r'"rank":\d+', '"rank":99'),
    Lie("users", r"/api/v1/policies/grid/explain", r'"actual":0\.\d+', '"actual":0.123'),
    Lie("users", ENTRY, r'(<dd id="rank">)\d+', r"\g<1>99"),
    Lie("users", ENTRY, r'(<dd id="actual">)[\d.]+', r"\g<1>99.9"),
    Lie("own answers", r"/api/v1/me", r'"rank":\d+', '"rank":99'),
    Lie("own answers", r"/me/priority/", r"rank \d+", "rank 99"),
    Lie("own answers", r"/api/v1/me/explain", r'"state":"\w+"', '"state":"unknown"'),
    Lie("entries on target", r"/api/v1/.*/convergence", r'"n_idle":\d', '"n_idle":4'),
    Lie("palette", r"/search/_results", r"\d of (\d) in grid (is|are) over", r"4 of \1 in grid \2 over"),
    Lie("palette", r"/search/_results", r"ank \d+, ", "ank 99, "),
    Lie("palette", r"/search/_results", r"[\d.]+ under", "88.8 under"),
    Lie("search", r"/api/v1/search", r'"rank":\d+', '"rank":null'),
    Lie("metrics", r"/metrics", r'side="over"} \d+', 'side="over"} 77'),
    Lie("entitlements", STATEMENT, r'(<dd class="num">)[\d,]+', r"\g<1>9,999,999"),
    Lie("entitlements", STATEMENT, r"(<h1>\w+ used )\d+", r"\g<1>7"),
    Lie("entitlements", rf"{STATEMENT}table.csv", r'("/[\w/]+",)[\d.]+', r"\g<1>1.5"),
    Lie("entitlements", r"/api/v1/.*/statements", r'"entitled":[\d.]+', '"entitled":1.5'),
    Lie("places in a queue", r"/api/v1/me/waiting-jobs", r'"of":[1-9]', '"of":77'),
    Lie("places in a queue", r"/api/v1/me", r'"position":\d+', '"position":77'),
    Lie("places in a queue", r"/me/priority/_waiting", r"<b>\d+</b>", "<b>77</b>"),
    Lie("places in a queue", r"/search/_results", r"place \d+ of", "place 77 of"),
    Lie("percentages and their whole", r"/search/_results", r"now [\d.]+", "now 1.5"),
    Lie("percentages and their whole", r"/search/_results", r"% of \w+;", "% of nothing;"),
    Lie("percentages and their whole", TREEMAP, r'"Target of grid"', '"Target"'),
    Lie("percentages and their whole", TREEMAP, r'(\["/group0", ?"[^"]*", ?"[^"]*", ?")[\d.]+', r"\g<1>99.9"),
]


@pytest.mark.deep
def test_each_rule_finds_a_planted_contradiction(monkeypatch: pytest.MonkeyPatch) -> None:
    """One face at a time says something else of the same site; without that, no rule finds anything."""
    faces = with_lie(read_faces(5, monkeypatch), None)
    assert contradictions(faces) == []
    assert {lie.rule for lie in LIES} == set(RULES)
    assert [lie for lie in LIES if not list(RULES[lie.rule](with_lie(faces, lie)))] == []


def with_lie(faces: Faces, lie: Lie | None) -> Faces:
    """The same site, whose answers are kept, read anew; one face lies."""
    return Faces(faces.site, Retold(faces.client, lie), _caller(Retold(faces.rest.client, lie)), lie, faces.people)


class Retold(Client):
    """A reader that asks each address once, also through those who are made of it, and gets what a lie makes of the
    answer. Nothing changes between their questions."""

    def __init__(self, client: Client, lie: Lie | None) -> None:
        super().__init__()
        self.cookies, self._lie = client.cookies, lie
        self._answers: dict[tuple[str, ...], tuple[Any, bytes]] = getattr(client, "_answers", {})

    def request(self, **request: Any) -> Any:
        assert request["REQUEST_METHOD"] == "GET"
        asked = (request["PATH_INFO"], str(request.get("QUERY_STRING")), str(request.get("HTTP_HX_REQUEST")))
        if asked not in self._answers:
            answer: Any = super().request(**request)
            self._answers[asked] = answer, answer.getvalue()
        answer, content = self._answers[asked]
        if self._lie is not None and re.fullmatch(self._lie.face, request["PATH_INFO"]):
            content = re.sub(self._lie.written, self._lie.instead, content.decode()).encode()
        if isinstance(answer, StreamingHttpResponse):
            answer.streaming_content = [content]
        else:
            answer.content = content
        vars(answer).pop("_json", None)  # what it was read as before
        return answer


def _caller(client: Client) -> Caller:
    caller = Caller()
    caller.client = client
    return caller
