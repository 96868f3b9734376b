"""All sentences by key, with translations, and messages: a key with values, rendered in the active language."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from apps.priorities.sentences import numbers
from apps.priorities.sentences import path as walk

_AROUND = _("%(name)s is on target around %(on)s.")
_BETWEEN = _("%(name)s is on target around %(on)s (%(range)s).")
_STAYS_OVER = _("%(name)s stays over target for more than %(horizon_s)s at the usual pace.")
_IF_AROUND = _("If %(name)s takes %(share)s of the usage of %(parent)s, it is on target around %(on)s.")
_IF_BETWEEN = _("If %(name)s takes %(share)s of the usage of %(parent)s, it is on target around %(on)s (%(range)s).")
_IF_NOT = _("If %(name)s takes %(share)s of the usage of %(parent)s, it does not reach its target of %(target)s.")


ANSWERS = {
    "when.now": _("Now. Your rank changes as jobs run."),
    "when.lead": _("Now. Your lead shrinks until %(name)s is on target, around %(on)s."),
    "when.lead_you": _("Now. Your lead shrinks until you are on target, around %(on)s."),
    "when.stays_under": _("Now. At the usual pace %(name)s is under target for at least 90 days more."),
    "when.stays_under_you": _("Now. At the usual pace you are under target for at least 90 days more."),
    "when.new_user": _("You are new here, and your rank is being computed. Check again in a moment."),
    "when.unmapped": _("With the next recompute after the account is mapped."),
    "when.no_snapshot": _("After the next recompute, usually within a minute."),
    "when.above": _("The main reason is at a level above those visible to you."),
    "when.no_shares": _("Only shares of %(parent)s improve your rank."),
    "when.equal": _("No date: your place changes with every job."),
    "when.inherited": _(
        "Only the policy changes this: inside %(parent)s others have no own shares, and %(algorithm)s takes them first."
    ),
    "when.not_over": _("No date."),
    "when.under_until": _(
        "Your place improves as the jobs of others run. %(name)s is under target until around %(on)s."
    ),
    "when.under_until_you": _(
        "Your place improves as the jobs of others run. You are under target until around %(on)s."
    ),
    "when.unknown": _("No date yet: recent usage is not known by day."),
    "when.recovers": _("Around %(on)s, when %(name)s is back on target at the usual pace."),
    "when.recovers_between": _("Around %(on)s (%(range)s), when %(name)s is back on target at the usual pace."),
    "when.recovers_you": _("Around %(on)s, when you are back on target at the usual pace."),
    "when.recovers_between_you": _("Around %(on)s (%(range)s), when you are back on target at the usual pace."),
    "when.quiet": _(
        "Not at the usual pace. Around %(on)s at the earliest, if %(name)s runs as little as in its quietest week."
    ),
    "when.you_stop": _("Not at the usual pace. Around %(on)s at the earliest, if you run nothing."),
    "when.later": _("No date within 90 days, even if %(name)s runs as little as in its quietest week."),
    "when.not_soon": _("No date within 90 days: at the usual pace %(name)s is over target until then."),
    "when.you_later": _("No date within 90 days, even if you run nothing."),
    "when.nobody_runs": ngettext_lazy(
        "No date: %(parent)s had no usage on the day before %(at)s. Without new usage no share changes.",
        "No date: %(parent)s had no usage on the %(n)s days before %(at)s. Without new usage no share changes.",
        "count",
    ),
    "queue.none": _("No jobs of yours are waiting in %(schedulers)s."),
    "queue.first": ngettext_lazy(
        "%(n)s job waits. It is number %(position)s of %(of)s in %(scheduler)s.",
        "%(n)s jobs wait. The first is number %(position)s of %(of)s in %(scheduler)s.",
        "count",
    ),
    "queue.first_in_partition": ngettext_lazy(
        "%(n)s job waits. It is number %(position)s of %(of)s in %(partition)s of %(scheduler)s.",
        "%(n)s jobs wait. The first is number %(position)s of %(of)s in %(partition)s of %(scheduler)s.",
        "count",
    ),
    "queue.of_group": _("That job is of %(group)s."),
    "queue.ahead": ngettext_lazy(
        "%(n)s job ahead (%(by_fairshare)s because of fair share).",
        "%(n)s jobs ahead (%(by_fairshare)s because of fair share).",
        "count",
    ),
    "queue.no_place": ngettext_lazy(
        "%(n)s job waits in %(scheduler)s, without a place in its order.",
        "%(n)s jobs wait in %(scheduler)s, without a place in its order.",
        "count",
    ),
    "queue.new": _("A new job would be number %(position)s of %(of)s in %(scheduler)s."),
    "queue.new_in_partition": _("A new job would be number %(position)s of %(of)s in %(partition)s of %(scheduler)s."),
    "queue.unread": _("The queue of %(scheduler)s could not be read since %(at)s."),
    "queue.never_read": _("The queue of %(scheduler)s has not been read yet."),
    "on.tolerance": _("%(low)s to %(high)s counts as on target."),
    "use.off": _("%(scheduler)s does not use this rank: it is off, and orders jobs by its own rule."),
    "use.shadow": _("%(scheduler)s does not use this rank: it is in shadow mode, and orders jobs by its own rule."),
    "use.paused": _("%(scheduler)s gets no new ranks: it is paused."),
    "use.reset": _("%(scheduler)s does not use this rank: its values are reset, and it orders jobs by its own rule."),
    "use.outside": _("%(scheduler)s does not use the rank of this entry: it gets those of another part of the policy."),
    "use.shares": _("%(scheduler)s gets this policy’s shares, not this rank: it orders jobs by its own fair share."),
    "use.limits": _("%(scheduler)s gets limits of accounts, not this rank."),
    "use.elsewhere": _("%(scheduler)s does not use this rank in this partition, but in %(partitions)s."),
    "use.partitions": _("%(scheduler)s uses this rank in %(partitions)s alone."),
    "change.unmapped": _("Ask your site’s support to map %(account)s."),
    "change.nothing_kept": _("%(policy)s had no usage then. Choose a later time."),
    "change.unranked": _(
        "Jobs of this entry have the fallback factor. Ask a manager of %(parent)s for your own entry."
    ),
    "change.unranked_of_lead": _(
        "Jobs of this entry have the fallback factor. Ask %(leads)s for your own entry in %(parent)s."
    ),
    "change.other_account": _("Submit under %(account)s: rank %(other_rank)s."),
    "change.until_mapped": _("Until then submit under %(account)s: rank %(other_rank)s."),
    "change.nothing": _("Nothing you need to do."),
    "change.nothing_yourself": _("Only waiting helps."),
    "change.group": _("Less use by %(name)s, or a larger share for it, helps. Ask a manager of %(name)s."),
    "change.group_of_lead": _("Less use by %(name)s, or a larger share for it, helps. Ask %(leads)s."),
    "change.own_use": _("Postpone what isn’t urgent. Past usage halves every %(half_life_s)s."),
    "change.own_use_decays": _("Postpone what isn’t urgent: new usage counts in full."),
    "change.shares": _("Ask a manager of %(parent)s for shares."),
    "change.shares_of_lead": _("Ask %(leads)s for shares of %(parent)s."),
    "trend.better": _("%(n)s better than a week ago (%(other_rank)s)"),
    "trend.worse": _("%(n)s worse than a week ago (%(other_rank)s)"),
    "trend.same": _("The same as a week ago"),
    "since.worse": _("From %(other_rank)s a day ago to %(rank)s."),
    "since.better": _("From %(other_rank)s a day ago to %(rank)s."),
    "since.others_ahead": _(
        "From %(other_rank)s a day ago to %(rank)s, because more accounts in %(parent)s are ahead of %(name)s."
    ),
    "since.others_behind": _(
        "From %(other_rank)s a day ago to %(rank)s, because fewer accounts in %(parent)s are ahead of %(name)s."
    ),
    "since.under_on": _(
        "From %(other_rank)s a day ago to %(rank)s, because %(name)s went from under to on target "
        "(%(other_actual)s to %(actual)s)."
    ),
    "since.under_over": _(
        "From %(other_rank)s a day ago to %(rank)s, because %(name)s went from under to over target "
        "(%(other_actual)s to %(actual)s)."
    ),
    "since.on_over": _(
        "From %(other_rank)s a day ago to %(rank)s, because %(name)s went from on to over target "
        "(%(other_actual)s to %(actual)s)."
    ),
    "since.over_on": _(
        "From %(other_rank)s a day ago to %(rank)s, because %(name)s went from over to on target "
        "(%(other_actual)s to %(actual)s)."
    ),
    "since.over_under": _(
        "From %(other_rank)s a day ago to %(rank)s, because %(name)s went from over to under target "
        "(%(other_actual)s to %(actual)s)."
    ),
    "since.on_under": _(
        "From %(other_rank)s a day ago to %(rank)s, because %(name)s went from on to under target "
        "(%(other_actual)s to %(actual)s)."
    ),
    "since.used_more": _(
        "From %(other_rank)s a day ago to %(rank)s, because %(name)s has more of the usage "
        "(%(other_actual)s to %(actual)s)."
    ),
    "since.used_less": _(
        "From %(other_rank)s a day ago to %(rank)s, because %(name)s has less of the usage "
        "(%(other_actual)s to %(actual)s)."
    ),
    "since.target_fell": _(
        "From %(other_rank)s a day ago to %(rank)s, because the target of %(name)s fell "
        "(%(other_target)s to %(target)s)."
    ),
    "since.target_rose": _(
        "From %(other_rank)s a day ago to %(rank)s, because the target of %(name)s rose "
        "(%(other_target)s to %(target)s)."
    ),
}


@dataclass(frozen=True, slots=True)
class Audience:
    """Who can see what: two translated texts, a label and its value."""

    who: Any
    what: Any

    def __mod__(self, values: Mapping[str, Any]) -> str:
        return f"{self.who % values}: {self.what % values}"


_ALL = _("All signed-in users, at %(name)s")
_PEOPLE = ngettext_lazy(
    "%(n)s person with the role %(role)s at %(name)s",
    "%(n)s people with the role %(role)s at %(name)s",
    "count",
)
_GROUP = _("Members of %(people)s, with the role %(role)s at %(name)s")
_BY_NAME = _("your name, share, usage and jobs.")
_JOBS_BY_NAME = _("your name, your accounts and their jobs.")
_NAME_ALONE = _("your name and share, but not your usage.")
_IN_SUMS = _("group totals only. Totals need %(smallest)s active users, none above four fifths.")

AUDIENCE: Mapping[str, Any] = {
    "seen.open": _(
        "%(policy)s is open: all signed-in users see the whole tree, with your name, share and usage. "
        "Your jobs stay private."
    ),
    "seen.by_name_all": Audience(_ALL, _BY_NAME),
    "seen.jobs_by_name_all": Audience(_ALL, _JOBS_BY_NAME),
    "seen.name_alone_all": Audience(_ALL, _NAME_ALONE),
    "seen.in_sums_all": Audience(_ALL, _IN_SUMS),
    "seen.closed": _(
        "Colleagues and other users without a role here see neither your name nor your numbers. Members "
        "of your group see its total, and how many are ahead."
    ),
    "seen.by_name": Audience(_PEOPLE, _BY_NAME),
    "seen.by_name_group": Audience(_GROUP, _BY_NAME),
    "seen.jobs_by_name": Audience(_PEOPLE, _JOBS_BY_NAME),
    "seen.jobs_by_name_group": Audience(_GROUP, _JOBS_BY_NAME),
    "seen.name_alone": Audience(_PEOPLE, _NAME_ALONE),
    "seen.name_alone_group": Audience(_GROUP, _NAME_ALONE),
    "seen.in_sums": Audience(_PEOPLE, _IN_SUMS),
    "seen.in_sums_group": Audience(_GROUP, _IN_SUMS),
    "seen.administrators": ngettext_lazy(
        "%(n)s administrator of this site sees everything.",
        "%(n)s administrators of this site see everything.",
        "count",
    ),
    "seen.schedulers": _("Schedulers receive your factor, rank and levels, but no job data."),
}


FORECASTS = {
    "forecast.on_target": _("%(name)s is on target: it has %(actual)s of %(parent)s; target %(target)s."),
    "forecast.idle": _("%(name)s has no usage in the window; its target is %(target)s of %(parent)s."),
    "forecast.nothing_used": _("%(parent)s has no usage in the window."),
    "forecast.recovers": _BETWEEN,
    "forecast.recovers_about": _AROUND,
    "forecast.recovers_or_not": _("%(name)s is on target around %(on)s, or much later if %(parent)s runs little."),
    "forecast.gives_way": _BETWEEN,
    "forecast.gives_way_about": _AROUND,
    "forecast.never_if_nobody_runs": ngettext_lazy(
        "%(parent)s had no usage on the day before %(at)s. Without new usage %(name)s stays at %(actual)s; "
        "target %(target)s.",
        "%(parent)s had no usage on the %(n)s days before %(at)s. Without new usage %(name)s stays at %(actual)s; "
        "target %(target)s.",
        "count",
    ),
    "forecast.never_within_window": ngettext_lazy(
        "%(parent)s had no usage on the day before %(at)s. Without new usage %(name)s stays at %(actual)s; "
        "target %(target)s, until its usage leaves the window of %(window_s)s.",
        "%(parent)s had no usage on the %(n)s days before %(at)s. Without new usage %(name)s stays at %(actual)s; "
        "target %(target)s, until its usage leaves the window of %(window_s)s.",
        "count",
    ),
    "forecast.not_at_this_pace": _STAYS_OVER,
    "forecast.not_within_horizon": _STAYS_OVER,
    "forecast.stays_under": _("%(name)s stays under target for more than %(horizon_s)s at the usual pace."),
    "forecast.factor_goes": _(
        "The factor is %(factor)s now. At the pace of the last two weeks, it is %(week_factor)s in "
        "%(in_s)s and %(month_factor)s in %(horizon_s)s."
    ),
    "forecast.factor_stays": _("At the pace of the last two weeks, the factor stays at %(factor)s for %(horizon_s)s."),
    "forecast.factor_by_level": _(
        "The level whose effect changes most is %(name)s: it has %(other_actual)s of the usage of %(parent)s now and "
        "%(actual)s in %(horizon_s)s."
    ),
    "forecast.factor_too_many_hours": _("Too much usage to forecast the factor."),
    "forecast.not_compared": _("%(name)s has no shares of its own: the entries below are compared one level up."),
    "forecast.no_whole_day": _("No forecast yet: usage in %(parent)s is not known for a whole day with %(name)s."),
    "forecast.no_decay_function": _(
        "This version doesn’t have the decay function “%(function)s”: nothing is forecast."
    ),
    "forecast.no_days": _("Daily usage of %(policy)s is not calculated yet: the forecast follows."),
}


SCENARIO = "scenario."  # prefix of keys of forecasts with a hypothetical pace
SCENARIOS = {
    "forecast.scenario": _("Scenario: %(name)s takes %(share)s of the usage of %(parent)s."),
    "scenario.forecast.recovers": _IF_BETWEEN,
    "scenario.forecast.recovers_about": _IF_AROUND,
    "scenario.forecast.recovers_or_not": _(
        "If %(name)s takes %(share)s of the usage of %(parent)s, it is on target around %(on)s, or much later if "
        "%(parent)s runs little."
    ),
    "scenario.forecast.gives_way": _IF_BETWEEN,
    "scenario.forecast.gives_way_about": _IF_AROUND,
    "scenario.forecast.not_at_this_pace": _IF_NOT,
    "scenario.forecast.stays_under": _IF_NOT,
    "scenario.forecast.not_within_horizon": _(
        "If %(name)s takes %(share)s of the usage of %(parent)s, it doesn’t return to its target within %(horizon_s)s."
    ),
}


PAST = {
    "past.none": _("No stored numbers for that time: targets only."),
    "past.as_computed": _("Usage as of %(at)s, as computed at the time."),
    "past.reconstructed": _("Usage as of %(at)s, reconstructed from the records."),
    "past.earlier_revision": _(
        "Usage as of %(at)s, computed with revision %(revision)s: no numbers are stored for the newer revision."
    ),
    "past.usage_later": _("Usage from %(since_at)s on was reported or corrected after %(at)s; it is included."),
    "past.later_unknown": _("No numbers of that time are stored, so late usage can’t be distinguished."),
    "past.corrections_later": ngettext_lazy(
        "%(n)s adjustment of earlier usage was published later; it is left out.",
        "%(n)s adjustments of earlier usage were published later; they are left out.",
        "count",
    ),
    "past.before_first_usage": _("The first usage is from %(at)s: there was none before."),
    "past.no_usage": _("No usage is known at that time."),
    "past.no_mapping": _("No account was mapped at that time, so no usage counts."),
    "past.oldest_mapping": _("The mapping of that time isn’t stored; the oldest one, of %(at)s, is used."),
}


TEXTS: Mapping[str, Any] = {
    **walk.LEVELS,
    **walk.VERDICTS,
    **ANSWERS,
    **walk.CONTRASTS,
    **walk.EFFECTS,
    **AUDIENCE,
    **FORECASTS,
    **SCENARIOS,
    **PAST,
}


# The name of a value decides its format, so that a name has one meaning in all sentences.
_PERCENT = ("target", "actual", "other_target", "other_actual", "limit", "share", "other_share", "low", "high")
_FORMATS: Mapping[str, Callable[[Any], str]] = {
    **dict.fromkeys(_PERCENT, numbers.percent),
    "points": lambda points: numbers.points_phrase(points / 100),
    "rank": numbers.count,
    "of": numbers.count,
    "other_rank": numbers.count,
    "n": numbers.count,
    "position": numbers.count,
    "by_fairshare": numbers.count,
    "n_ahead": numbers.count,
    "n_siblings": numbers.count,
    "levels": numbers.count,
    "resolution": numbers.count,
    "factor": numbers.factor,
    "other_factor": numbers.factor,
    "week_factor": numbers.factor,
    "month_factor": numbers.factor,
    "ratio": numbers.ratio,
    "above": numbers.ratio,
    "own_ratio": numbers.ratio,
    "k": numbers.ratio,
    "priority": numbers.signed_exact,
    "other_priority": numbers.signed_exact,
    "vector": numbers.signed_list,
    "deviations": lambda values: numbers.signed_list(values, 1),
    "parts": lambda values: f"({', '.join(map(str, values))})",
    "at": numbers.day_and_time,
    "since_at": numbers.day_and_time,
    "on": numbers.date,
    "schedulers": numbers.either,
    "partitions": numbers.either,
    "leads": numbers.either,
    "half_life_s": numbers.span,
    "siblings": numbers.count,
    "kinds": numbers.kinds,
    "hours": numbers.amount,
    "shares": numbers.amount,
    "wished_shares": numbers.amount,
    "in_s": numbers.span,
    "soonest_s": numbers.span,
    "latest_s": numbers.span,
    "horizon_s": numbers.span,
    "window_s": numbers.span,
    "problems": lambda problems: ", ".join(problems),
}


@dataclass(frozen=True, slots=True)
class Message:
    """One sentence with unformatted values. `n`, or if missing `n_siblings`, decides singular or plural."""

    key: str
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The sentence in the active language."""
        formatted: dict[str, Any] = {
            name: numbers.UNKNOWN if value is None else _FORMATS.get(name, str)(value)
            for name, value in self.values.items()
        }
        formatted |= self._percentages()
        if "earliest" in self.values and "latest" in self.values:
            formatted["range"] = numbers.dates(self.values["earliest"], self.values["latest"])
        formatted["count"] = int(self.values.get("n", self.values.get("n_siblings", 1)))
        return str(TEXTS[self.key] % formatted)

    def _percentages(self) -> dict[str, str]:
        """Its fractions in percent with the decimals that they need, and a difference of two of them in points."""
        fractions = {name: self.values[name] for name in _PERCENT if name in self.values}
        points = self.values.get("points")
        decimals = numbers.decimals_beside(*fractions.values())
        texts = {name: numbers.percent(value, decimals) for name, value in fractions.items()}
        if points is None:
            return texts
        difference = numbers.difference_beside(points / 100, list(fractions.values()), decimals)
        return {**texts, "points": numbers.points_phrase(difference, decimals)}

    def __str__(self) -> str:
        return self.text

    def json(self) -> dict[str, Any]:
        """Key, values and text as JSON for REST."""
        return {"key": self.key, "values": {n: json_value(v) for n, v in self.values.items()}, "text": self.text}


def build_message(key: str, **values: Any) -> Message:
    """A message of the catalogue."""
    return Message(key, values)


def band_messages(actual: float, target: float, slack: float) -> list[Message]:
    """What counts as on target, for a fraction that is within the band but isn't shown as its target; else nothing."""
    if numbers.percent(actual, 1) == numbers.percent(target, 1):
        return []
    low, high = max(target - slack, 0.0), min(target + slack, 1.0)
    return [build_message("on.tolerance", actual=actual, low=low, high=high)]


def text_of(sentences: Sequence[Message]) -> str:
    """The texts of several messages, joined."""
    return " ".join(sentence.text for sentence in sentences)


def json_value(value: Any) -> Any:
    """A value of a message in JSON: instants in UTC, infinity as a text, not-a-number as null."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, float) and value != value:
        return None
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    return value
