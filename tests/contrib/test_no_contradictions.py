"""No two sentences of My priority contradict each other: on the page, in REST and in the terminal.

Random trees, algorithms, tolerances, past days, queues and further accounts. Rules read keys and numbers, never words;
each is a row of `RULES`, and gives what contradicts what.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.explain.my_priority import MyPriority
from apps.policies.settings import PolicySettings
from apps.priorities.sentences.numbers import MINUS
from tests.contrib.my_priority_surfaces import ORDERS, DrawnDays, Surfaces, days, queues
from tests.examples import examples, first
from tests.explain.sentence_world import SentenceWorld, snapshot_of, worlds
from tests.explain.test_true_sentences import ALGORITHMS, IDS
from tests.pages.page import text_of

Json = dict[str, Any]
Found = Iterator[str]

FRONT, BACK = ("verdict.near", "verdict.ahead"), ("verdict.behind",)
GOOD_REASONS = r"reason\.(you|group)_good_.*|reason\.good_rule|reason\.factor_less|factor\..*_raises"
BAD_REASONS = (
    r"reason\.(you|group)_(bad_.*|listed|ended)|reason\.(inherited|no_own_shares|factor_more)|"
    r"factor\..*_(lowers|no_shares)"
)
NOW = ("when.now", "when.lead", "when.lead_you", "when.stays_under", "when.stays_under_you")
DATES = r"when\.(recovers.*|under_until.*|lead.*)"
NO_DATES = r"when\.(not_over|unknown|nobody_runs|quiet|you_stop|not_soon|later|you_later|equal|stays_under.*)"
FORECAST_DATES = r"forecast\.(recovers|recovers_about|recovers_or_not|gives_way|gives_way_about)"
STATES = {
    "over": r"forecast\.(recovers.*|never_.*|not_at_this_pace|not_within_horizon)",
    "under": r"forecast\.(gives_way.*|never_.*|stays_under)",
    "on": r"forecast\.(on_target|nothing_used)",
    "idle": r"forecast\.(idle|nothing_used|gives_way.*|never_.*|stays_under)",
}
UNKNOWN = r"forecast\.(no_days|no_whole_day)"


def keys(messages: list[Json]) -> list[str]:
    return [one["key"] for one in messages]


def matching(pattern: str, messages: list[Json]) -> list[Json]:
    return [one for one in messages if re.fullmatch(pattern, one["key"])]


class Answers:
    """The sentences of one user's accounts by place, and what is known beside them."""

    def __init__(self, shown: Surfaces) -> None:
        self.shown, self.rest = shown, shown.rest
        self.line, self.explained, self.forecast = (self.rest[name] for name in ("me", "me/explanation", "me/forecast"))
        self.heading, *self.reasons = self.line["sentences"]
        self.when = [one for one in self.line["when"] if not one["key"].startswith("queue.")]
        self.queue, self.changes = self.line["when"][len(self.when) :], self.line["changes"]
        self.steps: list[Json] = self.explained["steps"]
        self.levels: list[Json] = self.forecast.get("levels", [])

    @property
    def deciding(self) -> Json | None:
        return next((step for step in self.steps if step["decides"]), None)

    @property
    def deciding_forecast(self) -> Json | None:
        step = self.deciding
        return None if step is None else next(one for one in self.levels if one["path"] == step["entry"])


def dates_in(text: str) -> list[str]:
    months = "January|February|March|April|May|June|July|August|September|October|November|December"
    return [found[0] for found in re.finditer(rf"\d+ ({months})", text)]


def surfaces_agree(answers: Answers) -> Found:
    """Page, REST and terminal have the same sentences."""
    page, texts = (
        answers.shown.page,
        [one["text"] for one in (answers.heading, *answers.reasons, *answers.when, *answers.changes)],
    )
    shown = [text_of(node) for node in page.all("h1[data-key], dl.qa [data-key]")]
    if shown != [_plain(text) for text in texts]:
        yield f"page {shown} and REST {texts}"
    for command, printed in answers.shown.terminal.items():
        missing = [text for text in texts if _plain(text) not in printed]
        if missing:
            yield f"the terminal's {command} lacks {missing}"
    if answers.line["sentences"] != answers.explained["sentences"] or answers.line["when"] != answers.explained["when"]:
        yield "two routes of REST differ"
    decides = [text_of(node) for node in page.all("ol.lv li.decides h3")]
    if len(decides) != (answers.deciding is not None):
        yield "the page marks another level"
    if answers.forecast and answers.shown.figure_sentence != _plain(answers.forecast["sentence"]):
        yield "the figure and the forecast of REST differ"
    lines = page.texts("#forecast-levels li p")
    if lines and [line.removesuffix(" main reason") for line in lines] != [
        _plain(one["sentence"]) for one in answers.levels
    ]:
        yield "levels of the forecast differ"


def heading_fits_reason(answers: Answers) -> Found:
    if answers.heading["key"] in FRONT and matching(BAD_REASONS, answers.reasons):
        yield "ahead, with a reason for being behind"
    if answers.heading["key"] in BACK and matching(GOOD_REASONS, answers.reasons):
        yield "behind, with a reason for being ahead"
    if answers.line["rank"] is None and (answers.deciding or re.search("rank", str(answers.heading["values"]))):
        yield "without a rank, but a rank or a decisive level"


def heading_fits_when(answers: Answers) -> Found:
    is_now = any(one["key"] in NOW for one in answers.when)
    if answers.heading["key"] in FRONT and not is_now:
        yield "ahead, but later"
    if answers.heading["key"] in BACK and is_now:
        yield "behind, but now"
    if is_now and [one for one in matching(NO_DATES, answers.when) if one["key"] not in NOW]:
        yield "now, and no date"
    if is_now and matching(BAD_REASONS, answers.reasons):
        yield "now, with a reason for being behind"


def ranks_agree(answers: Answers) -> Found:
    """Every rank that is named is the same, and leaves by level add up to it."""
    line, number = answers.line, answers.explained["number"]
    for one in (answers.heading, *([number] if number else [])):
        values = one["values"]
        if "rank" in values and (values["rank"], values["of"]) != (line["rank"], line["of"]):
            yield f"{one['key']} names another rank"
    strips = [re.findall(r"\d+", text_of(node)) for node in answers.shown.page.items("strip")]
    for ahead_all, *by_level in strips:
        if int(ahead_all) != line["rank"] - 1:
            yield "the strip has another number ahead than the rank"
        n_levels = (len(by_level) - 1) // 2
        if n_levels and sum(map(int, by_level[:n_levels])) != line["rank"] - 1:
            yield "the levels of the strip don't add up to the rank"
    ahead = [step["leaves_ahead"] for step in answers.steps if step["leaves_ahead"] is not None]
    if ahead and line["rank"] is not None and sum(ahead) != line["rank"] - 1:
        yield "leaves ahead by level don't add up to the rank"


def reason_is_of_the_marked_level(answers: Answers) -> Found:
    step = answers.deciding
    if step is None:
        return
    if answers.forecast and answers.forecast["deciding"] != step["entry"]:
        yield "the forecast marks another level"
    if answers.line["deciding"] != step["entry"]:
        yield "the summary names another level"
    for one in answers.reasons:
        values = one["values"]
        facts = ("name", "actual", "target")
        is_of_level = one["key"].startswith(("reason.", "factor.")) and "actual" in values
        if is_of_level and [values[name] for name in facts] != [step[name] for name in facts]:
            yield "reason about another level"
        state = re.fullmatch(r"reason\.(?:you|group)_.*_(over|on|under)", one["key"])
        if state and state[1] != {"idle": "under"}.get(step["state"], step["state"]):
            yield f"{one['key']} of a level that is {step['state']}"
        side = re.fullmatch(r"reason\..*_(good|bad)_.*", one["key"])
        if side and values["n"] != step["leaves_behind" if side[1] == "good" else "leaves_ahead"]:
            yield "another number of accounts at the level"
        if side and not values["n"]:
            yield "nobody at the level"
    if step["effect"] and step["effect"]["log2_change"] not in (None, "-Infinity"):
        falls = step["effect"]["log2_change"] < 0
        if falls and step["actual"] < step["target"] and not matching(r"effect\.adds", answers.reasons):
            yield "a factor that falls at a level under its target, without an explanation"


def dates_agree(answers: Answers) -> Found:
    """The date of *when* is that of the forecast of the decisive level; "no date" isn't beside a date."""
    level = answers.deciding_forecast
    if level is None:
        return
    dated = matching(FORECAST_DATES, level["sentences"])
    in_s = [one["values"]["in_s"] for one in dated]
    for one in matching(DATES, answers.when):
        wanted = [answers.shown.world.snapshot.as_of + timedelta(seconds=each) for each in in_s]
        if one["values"]["on"] not in [each.isoformat().replace("+00:00", "Z") for each in wanted]:
            yield f"{one['key']} names another day than the forecast"
        if dated and dates_in(one["text"])[:1] != dates_in(dated[0]["text"])[:1]:
            yield f"{one['text']} beside {dated[0]['text']}"
        if "earliest" in one["values"] and re.search(r"\((.+) to \1\)", one["text"]):
            yield "a range of one day"
    if dated and matching(NO_DATES, answers.when):
        yield f"{keys(answers.when)} beside {keys(dated)}"
    if matching(r"when\.unknown", answers.when) and not matching(UNKNOWN, level["sentences"]):
        yield "recent usage unknown, but a forecast"
    if bool(matching(r"when\.nobody_runs", answers.when)) > bool(matching(r"forecast\.never_.*", level["sentences"])):
        yield "nobody runs, but the forecast has usage"


def days_without_usage_are_measured(answers: Answers) -> Found:
    """A sentence of days without usage is beside days that have none, and names their number."""
    days = answers.shown.days
    named_here = [one for level in answers.levels for one in matching(r"forecast\.never_.*", level["sentences"])]
    for one in (*matching(r"when\.nobody_runs", answers.when), *named_here):
        if days is None or any(days.group) or one["values"]["n"] != len(days.group):
            yield f"{one['key']} of other days than {days}"


def forecast_fits_state(answers: Answers) -> Found:
    """Of each level: what the forecast says first fits the state of the path, and REST's outcome fits the sentence."""
    for step, level in zip(answers.steps, answers.levels, strict=True):
        first = level["sentences"][0]["key"]
        if step["target"] is None or re.fullmatch(UNKNOWN, first):
            continue
        if not re.fullmatch(STATES[step["state"]], first):
            yield f"{first} of a level that is {step['state']}"
        outcome = level["to_target"]["middle"]["outcome"]
        if (outcome == "recovers") != bool(re.fullmatch(FORECAST_DATES, first)):
            yield f"{first} with the outcome {outcome}"
        if (outcome == "on_target") != (level["to_tolerance"] is None):
            yield f"{outcome}, and to_tolerance is {level['to_tolerance']}"


def states_have_one_word(answers: Answers) -> Found:
    """On each level of the page: sentence, badge and REST have one state."""
    marks = answers.shown.page.all("ol.lv li")
    for step, mark in zip(answers.steps, marks, strict=False):
        badge = mark.css_first('[data-testid="balance"]')
        if badge is None or step["target"] is None:
            continue
        if (badge.attributes.get("data-state") or "") != step["state"]:
            yield f"badge {badge.attributes.get('data-state')} of a level that is {step['state']}"
        first = step["sentences"][0]["key"].split(".")[1].removesuffix("_you").removesuffix("_decides")
        if first != step["state"]:
            yield f"walk.{first} of a level that is {step['state']}"


def siblings_fit_reason(answers: Answers) -> Found:
    """Where accounts are ahead at a level, no sentence says that none is."""
    for step in answers.steps:
        if step["leaves_ahead"] and matching(r"ahead\.nobody.*", step["sentences"]):
            yield f"{step['leaves_ahead']} accounts ahead at {step['entry']}, but none"


def advice_fits(answers: Answers) -> Found:
    named = keys(answers.changes)
    own, others = answers.shown.mine, answers.shown.accounts[1:]
    better = [one for one in others if one.rank is not None and (own.rank is None or one.rank < own.rank)]
    if better and not {"change.other_account", "change.until_mapped"} & set(named):
        yield "a better account isn't named"
    for one in answers.changes:
        if "other_rank" in one["values"] and one["values"]["other_rank"] != min(each.rank or 0 for each in better):
            yield "another account than the best"
    for nothing in ("change.nothing", "change.nothing_yourself"):
        if nothing in named and [one for one in named if one not in (nothing, "change.other_account")]:
            yield "nothing to do, but something"
    if "change.nothing" in named and (len(named) > 1 or answers.heading["key"] in BACK):
        yield "nothing to do, but behind"
    step = answers.deciding
    if {"change.group", "change.group_of_lead"} & set(named) and (step is None or step["state"] != "over"):
        yield "less usage by a group that isn't over"
    if matching(r"change\.own_use.*", answers.changes) and answers.steps[-1]["state"] != "over":
        yield "less usage by a user who isn't over"


def queue_fits_rows(answers: Answers) -> Found:
    """The page's rows, REST's rows and the sentences about the first job; an agent's error is never "none"."""
    listed, page, shown = answers.rest["me/waiting-jobs"], answers.shown.page, answers.shown
    n_rows = len(page.all("#waiting-jobs tbody tr"))
    if n_rows != len(listed["jobs"]):
        yield "the page has other rows than REST"
    own = [row for row in shown.rows or [] if row["user"] in {one.account for one in shown.accounts}]
    if len(own) != listed["n_mine"]:
        yield f"{len(own)} jobs wait, and {listed['n_mine']} are listed"
    says_none = page.has('[data-testid="no-waiting"]')
    if says_none and (n_rows or shown.is_silent):
        yield "none is waiting, beside rows or an agent that doesn't list them"
    if shown.rows is not None and shown.is_silent != page.has('[data-testid="unread"]'):
        yield "a silent agent isn't shown, or one that isn't silent"
    if shown.rows is None or answers.line["error"]:
        if answers.queue:
            yield "a place in a queue that isn't known"
        return
    firsts = matching(r"queue\.(first.*|no_place)", answers.queue)
    if bool(firsts) != bool(listed["jobs"]):
        yield f"{keys(answers.queue)} with {len(listed['jobs'])} jobs"
    if matching(r"queue\.none", answers.queue) and (own or shown.is_silent):
        yield "no jobs, beside rows or a silent agent"
    if bool(matching(r"queue\.(unread|never_read)", answers.queue)) != shown.is_silent:
        yield "a sentence about a queue that isn't read, or none"
    places = [job["position"] for job in listed["jobs"] if job["position"] is not None]
    for one in firsts:
        if one["key"].startswith("queue.first") and (one["values"]["position"], one["values"]["of"]) != (
            min(places),
            listed["jobs"][0]["of"],
        ):
            yield "another place than the first row's"
        if one["key"] == "queue.no_place" and places:
            yield "no place, but a row with one"
    for one in matching(r"queue\.ahead", answers.queue):
        if one["values"]["n"] != min(places) - 1:
            yield "another number of jobs ahead than the place"
        if one["values"]["by_fairshare"] > one["values"]["n"]:
            yield "more jobs ahead because of fair share than ahead"
    news = [one["values"] for one in matching(r"queue\.new.*", answers.queue)]
    new = listed["new_job"]
    if [(one["position"], one["of"]) for one in news] != ([] if new is None else [(new["position"], new["of"])]):
        yield "another place of a new job in sentences than in REST"
    if new is not None and (shown.is_silent or not 1 <= new["position"] <= new["of"]):
        yield "a new job outside the queue, or in one that isn't listed now"
    if any(job["position"] is not None and not 1 <= job["position"] <= job["of"] for job in listed["jobs"]):
        yield "a place outside the queue"
    if any(not job["held_by"] for job in listed["jobs"]):
        yield "a job that waits without a reason"


def places_are_of_one_set(answers: Answers) -> Found:
    """A place and its "of" count the jobs of one partition that may start, and the partition is named beside them."""
    able = [row for row in answers.shown.rows or [] if row["state"] == "pending" and row["priority"] != 0]
    sizes = {name: sum(row["partition"] == name for row in able) for name in ("batch", "gpu")}
    listed = answers.rest["me/waiting-jobs"]
    placed = [job for job in listed["jobs"] if job["position"] is not None]
    if [job["of"] for job in placed] != [sizes[job["partition"]] for job in placed]:
        yield "a place of another set than its partition"
    cells = [text_of(node) for node in answers.shown.page.all("#waiting-jobs tbody td.num")]
    wanted = [f"{job['position']} of {job['of']} in {job['partition']}" for job in placed]
    if [cell for cell in cells if cell != "–"] != wanted:
        yield f"the page's places {cells} and REST's {wanted}"
    new = listed["new_job"]
    if new is not None and new["of"] != sizes[new["partition"]] + 1:
        yield "a new job of another set than its partition"
    for one in matching(r"queue\.(first.*|new.*)", answers.queue):
        if one["values"]["partition"] not in one["text"]:
            yield f"{one['text']} without its set"


def use_of_the_rank_fits_orders(answers: Answers) -> Found:
    """Where a scheduler that lists jobs orders them by something else than the rank, each face says so."""
    shown, orders = answers.shown, answers.shown.orders
    named_here = matching(r"use\..*", answers.reasons)
    is_ranked = shown.rows is not None and answers.line["rank"] is not None and not answers.line["error"]
    if bool(named_here) != (is_ranked and orders != {"mode": "on"}):
        yield f"{keys(named_here)} of a scheduler with {orders}"
    if "use.shadow" in keys(named_here) and orders["mode"] != "shadow":
        yield "shadow mode of another mode"
    for job in answers.rest["me/waiting-jobs"]["jobs"]:
        chosen = [orders["canary_partition"]] if orders["mode"] == "canary" else orders.get("partitions")
        is_by_rank = orders["mode"] in ("on", "canary") and (chosen is None or job["partition"] in chosen)
        if (job["rank_use"] == "used") != (
            is_by_rank and not {*orders} & {"carries", "is_paused", "is_reset_requested"}
        ):
            yield f"{job['rank_use']} in {job['partition']} with {orders}"


def numbers_are_consistent(answers: Answers) -> Found:
    """Different percentages look different, and a difference is that of the numbers shown, unless all are minute."""
    levels = [one for step in answers.steps for one in step["sentences"]]
    forecasts = [one for level in answers.levels for one in level["sentences"]]
    for one in (*answers.reasons, *answers.when, *levels, *forecasts):
        values = one["values"]
        pair = [values.get("actual"), values.get("target")]
        if None in pair or abs(pair[0] - pair[1]) < 1e-5:
            continue
        shown = re.findall(r"<?\d[\d,.]*(?=\u00a0%)", one["text"])
        if len(shown) >= 2 and len(set(shown)) == 1:
            yield f"equal numbers: {one['text']}"
        gap = re.search(r"by (\d[\d.]*) points?", one["text"])
        if gap and len(shown) == 2 and "<" not in "".join(shown):
            away = abs(float(shown[0]) - float(shown[1]))
            if abs(away - float(gap[1])) > 1e-3 + 1e-9:
                yield f"a difference of other numbers: {one['text']}"
    if re.search(rf"[{MINUS}-]0(\.0+)? points", answers.shown.page.html):
        yield "minus zero"


RULES: dict[str, Callable[[Answers], Found]] = {
    "page, REST and terminal": surfaces_agree,
    "heading and reason": heading_fits_reason,
    "heading and when": heading_fits_when,
    "ranks": ranks_agree,
    "reason and marked level": reason_is_of_the_marked_level,
    "dates": dates_agree,
    "forecast and state": forecast_fits_state,
    "states": states_have_one_word,
    "siblings and reason": siblings_fit_reason,
    "advice": advice_fits,
    "days without usage": days_without_usage_are_measured,
    "queue": queue_fits_rows,
    "places": places_are_of_one_set,
    "use of the rank": use_of_the_rank_fits_orders,
    "rounded numbers": numbers_are_consistent,
}


def contradictions(shown: Surfaces) -> list[str]:
    answers = Answers(shown)
    return [f"{name}: {what}" for name, rule in RULES.items() for what in rule(answers)]


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def unmapped(account: str) -> MyPriority:
    return MyPriority(
        account, "c1", policy_slug="grid", policy_name="Grid", error="unmapped", factor=0.5, snapshot_id=1
    )


TOLERANCES = [{"relative": 0.1, "points": 0.5}, {"relative": 0.0, "points": 0.0}, {"relative": 0.5, "points": 10.0}]


@pytest.mark.parametrize("algorithm", first(3, ALGORITHMS), ids=IDS)
@examples(60, fixed=12)
@given(data=st.data())
def test_no_two_sentences_contradict_each_other(algorithm: Json, data: st.DataObject) -> None:
    root, usage = data.draw(worlds())
    snapshot = snapshot_of(root, usage, algorithm)
    if snapshot is None:
        return
    tolerance = data.draw(st.sampled_from(TOLERANCES))
    settings = PolicySettings.from_json({"algorithm": snapshot.settings.algorithm, "tolerance": tolerance})
    world = SentenceWorld(_with_settings(snapshot, settings))
    past: DrawnDays | None = data.draw(days())
    rows = data.draw(queues(names=list(world.lines)))
    for leaf in world.lines:
        others = data.draw(st.lists(st.sampled_from(list(world.lines)), max_size=2, unique=True))
        accounts = [world.mine(leaf), *(world.mine(other) for other in others if other != leaf)]
        if data.draw(st.integers(0, 9)) == 0:
            accounts.insert(0, unmapped("ghost"))
        is_silent = rows is not None and data.draw(st.booleans())
        shown = Surfaces(world, accounts, past, rows, is_silent=is_silent, orders=data.draw(st.sampled_from(ORDERS)))
        assert contradictions(shown) == [], leaf


def _with_settings(snapshot: Any, settings: PolicySettings) -> Any:
    return replace(snapshot, settings=settings)
