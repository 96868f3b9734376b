"""What pages show of experiments: rows of the list, variants beside each other, findings, gains and losses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import nan
from typing import Any

from django.urls import reverse
from django.utils.functional import Promise
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.contrib.lab.experiments.records import (
    Changed,
    Compared,
    EntryNumbers,
    ExperimentDetail,
    ExperimentRow,
    Headline,
    ModelError,
    VariantReport,
    VariantRow,
)
from apps.contrib.lab.experiments.scenario_titles import title_of_scenario
from apps.contrib.lab.pages.numbers import (
    hours_text,
    points_text,
    settled_after,
    settled_text,
)
from apps.priorities.sentences.numbers import NBSP, change_shares, count, number, percent
from apps.priorities.sentences.wait_text import wait_change, wait_text
from apps.web.svg.under_draft import draw_share

SHOWN_ENTRIES, SHOWN_LEAVES = 40, 8
OPEN_STATES = ("queued", "preparing", "running")
STATES: dict[str, tuple[str, str, str | Promise]] = {  # badge, icon and word
    "preparing": ("warn", "clock", gettext_lazy("preparing")),
    "running": ("warn", "clock", gettext_lazy("running")),
    "waiting": ("", "clock", gettext_lazy("waiting")),
    "queued": ("", "clock", gettext_lazy("queued")),
    "done": ("ok", "check", gettext_lazy("done")),
    "failed": ("bad", "alert-octagon", gettext_lazy("failed")),
    "cancelled": ("", "x", gettext_lazy("cancelled")),
}
KINDS: dict[str, str | Promise] = {
    "replay": gettext_lazy("own jobs"),
    "trace": gettext_lazy("uploaded log"),
    "synthetic": gettext_lazy("drawn jobs"),
}


@dataclass(frozen=True, slots=True)
class StateBadge:
    state: str
    css: str
    icon: str
    text: str


def state_badge(state: str) -> StateBadge:
    css, icon, text = STATES[state]
    return StateBadge(state, css, icon, str(text))


def experiment_url(policy: str, experiment: int, query: str = "") -> str:
    url = reverse("pages:experiment", kwargs={"policy": policy, "experiment": experiment})
    return f"{url}?{query}" if query else url


def list_row(row: ExperimentRow) -> dict[str, Any]:
    """A row of the list."""
    n = row.n_variants
    return {
        "row": row,
        "url": experiment_url(row.policy, row.id),
        "badge": state_badge(row.state),
        "is_open": row.state in OPEN_STATES,
        "done": percent(row.progress, 0),
        "kind": str(KINDS[row.kind]),
        "variants": ngettext("%(n)s variant", "%(n)s variants", n) % {"n": count(n)},
    }


def findings(detail: ExperimentDetail) -> list[str]:
    """What came out of each variant, in one sentence each."""
    base = next((row for row in detail.variants if row.index == 0), None)
    if base is None or base.headline is None:
        return []
    if detail.verdicts:
        waits = [] if not detail.explains_waits else _wait_findings(detail, base.headline)
        return [*(f"{each.headline} {each.sentence}".strip() for each in detail.verdicts), *waits]
    if detail.history is not None and not detail.explains_waits:
        text = _(
            "Nothing can be compared: jobs waited %(waited)s on average, and in the replay %(waits)s. "
            "Something else than processors held them."
        )
        return [text % {"waited": wait_text(detail.history.wait_mean_s), "waits": wait_text(base.headline.wait_mean_s)}]
    return [
        finding_of(row.title, row.headline, base.headline)
        for row in detail.variants
        if row.index and row.headline is not None
    ]


def _wait_findings(detail: ExperimentDetail, base: Headline) -> list[str]:
    """Of a replay with a verdict: its distances are in that one."""
    rows = [row for row in detail.variants if row.index and row.headline is not None]
    findings = [finding_of(row.title, replace(row.headline, fair_points=None), base) for row in rows if row.headline]
    return findings


def finding_of(title: str, headline: Headline, base: Headline) -> str:
    """A variant beside the base: its median wait, and its distance from fair use."""
    values = {
        "title": title,
        "wait": wait_text(headline.wait_median_s),
        "wait_was": wait_text(base.wait_median_s),
        "points": points_text(headline.fair_points),
        "points_was": points_text(base.fair_points),
    }
    is_alike = values["wait"] == values["wait_was"]
    if headline.fair_points is None or base.fair_points is None:
        if is_alike:
            return _("%(title)s: median wait %(wait)s, as in the base.") % values
        return _("%(title)s: median wait %(wait)s instead of %(wait_was)s.") % values
    if is_alike and values["points"] == values["points_was"]:
        return _("%(title)s: median wait %(wait)s and %(points)s points from fair use, as in the base.") % values
    if is_alike:
        text = _(
            "%(title)s: median wait %(wait)s as before; %(points)s points from fair use instead of %(points_was)s."
        )
        return text % values
    if values["points"] == values["points_was"]:
        text = _("%(title)s: median wait %(wait)s instead of %(wait_was)s; %(points)s points from fair use as before.")
        return text % values
    text = _(
        "%(title)s: median wait %(wait)s instead of %(wait_was)s; "
        "%(points)s points from fair use instead of %(points_was)s."
    )
    return text % values


def model_error_sentences(error: ModelError) -> list[str]:
    """How far the replay of the published policy is from what happened."""
    sentences = []
    if error.wait_median_s is not None:
        values = {"time": wait_text(abs(error.wait_median_s))}
        if round(error.wait_median_s) == 0:
            sentences.append(_("The model’s median wait is the real one."))
        elif error.wait_median_s > 0:
            sentences.append(_("The model is too slow by %(time)s (median wait).") % values)
        else:
            sentences.append(_("The model is too fast by %(time)s (median wait).") % values)
    if error.core_hours_points is not None:
        sentences.append(
            _("It misplaces %(n)s points of the core-hours a day.") % {"n": points_text(error.core_hours_points)}
        )
    return sentences


def change_text(change: Changed) -> str:
    if change.before and change.after:
        return f"{change.label}: {change.before} → {change.after}"
    return f"{change.label}: {change.after or change.before}"


def variant_lines(policy: str, detail: ExperimentDetail, chosen: int | None) -> list[dict[str, Any]]:
    """Rows of the table of variants, the base first."""
    base = next((row.headline for row in detail.variants if row.index == 0), None)
    return [_variant_line(policy, detail, row, base, is_chosen=row.index == chosen) for row in detail.variants]


def _variant_line(
    policy: str, detail: ExperimentDetail, row: VariantRow, base: Headline | None, *, is_chosen: bool
) -> dict[str, Any]:
    names = {"policy": policy, "experiment": detail.row.id, "variant": row.index}
    rest = reverse("api:experiment-variant", kwargs=names)
    return {
        "row": row,
        "is_base": row.index == 0,
        "is_chosen": is_chosen,
        "is_closest": row.index == _closest(detail),
        "badge": state_badge(row.state),
        "is_open": row.state in ("waiting", "queued", "running"),
        "done": percent(row.progress, 0),
        "changes": [change_text(each) for each in row.changes],
        "numbers": None
        if row.headline is None
        else headline_texts(row.headline, None if row.index == 0 else base, _distances_of(detail, row)),
        "why_not": row.compared.why_not if row.compared is not None and row.headline is not None else "",
        "url": experiment_url(policy, detail.row.id, f"variant={row.index}"),
        "json_url": rest,
        "csv_url": f"{rest}?format=csv",
    }


def _distances_of(detail: ExperimentDetail, row: VariantRow) -> Compared | None:
    """Of a replay with a comparison; of others, the distances of the one simulation are shown."""
    return row.compared if detail.happened is not None else None


def _closest(detail: ExperimentDetail) -> int | None:
    """The variant closest to fair use; None where another one is as close by the numbers that are shown. Of a replay,
    the one that is measurably nearer than the base; None where there is none.
    """
    if detail.verdicts:
        return detail.closest or None
    texts = {row.index: points_text(row.headline.fair_points) for row in detail.variants if row.headline is not None}
    closest = detail.closest
    if closest is None or len(texts) < 2 or list(texts.values()).count(texts[closest]) > 1:
        return None
    return closest


def history_texts(detail: ExperimentDetail) -> dict[str, str] | None:
    """What happened in fact, of a replay."""
    return None if detail.history is None else headline_texts(detail.history, None, detail.happened)


def headline_texts(headline: Headline, base: Headline | None, compared: Compared | None) -> dict[str, str]:
    """base: None for the base itself, and for what happened in fact. compared: of a replay, whose distances are those
    of the held-back days, with those of the first days beside it.
    """
    texts = {
        "median": wait_text(headline.wait_median_s),
        "p90": wait_text(headline.wait_p90_s),
        "points": points_text(headline.fair_points),
        "settled": settled_text(headline),
        "busy": percent(headline.busy, 0),
        "waiting": count(headline.n_waiting),
        "core_hours": hours_text(headline.core_h),
    }
    if compared is not None:
        texts["points"] = points_text(compared.held_back_points)
        if compared.training_points is not None:
            texts["points_first"] = points_text(compared.training_points)
    if base is not None:
        texts["median_change"] = wait_change(headline.wait_median_s, base.wait_median_s)
        texts["p90_change"] = wait_change(headline.wait_p90_s, base.wait_p90_s)
    return texts


def entry_lines(report: VariantReport, query: str) -> list[dict[str, Any]]:
    """Rows of the table of entries. query: of the page, which an entry's link changes."""
    curves = {curve.entry: curve for curve in report.curves}
    lines = []
    for each in report.entries[:SHOWN_ENTRIES]:
        curve = curves.get(each.entry)
        lines.append(
            {
                "entry": each,
                "above": each.path.rpartition("/")[0] or "/",
                "picture": _picture(curve) if curve is not None else "",
                "target": change_shares(each.target_was if report.index else each.target, each.target),
                "wait": wait_text(each.wait_median_s),
                "wait_was": wait_text(each.wait_median_was_s) if report.index else "",
                "core_hours": hours_text(each.core_h),
                "core_hours_was": hours_text(each.core_h_was) if report.index else "",
                "settled": settled_after(each.settled_h, each.is_settled) if each.is_group else "",
                "query": f"{query}&entry={each.entry}" if query else f"entry={each.entry}",
            }
        )
    return lines


def _picture(curve: Any) -> SafeString:
    """The share in this variant, its target, and the share in the base, from thinned values."""
    step = max(1, len(curve.share) // 48)
    share = [nan if value is None else value for value in curve.share[::step]]
    share_was = [nan if value is None else value for value in curve.share_was[::step]]
    target = [nan if curve.target is None else curve.target] * len(share)
    return draw_share(share, target, share_was or [nan] * len(share))


def moved_lines(rows: Sequence[EntryNumbers]) -> list[dict[str, Any]]:
    """Leaves that wait less, or longer, than in the base."""
    return [
        {
            "entry": each,
            "above": each.path.rpartition("/")[0] or "/",
            "wait": wait_text(each.wait_mean_s),
            "wait_was": wait_text(each.wait_mean_was_s),
            "change": wait_change(each.wait_mean_s, each.wait_mean_was_s),
        }
        for each in rows[:SHOWN_LEAVES]
    ]


def moved_sentence(report: VariantReport) -> str:
    """How many leaves wait less and how many longer."""
    if not report.n_gain and not report.n_lose:
        return _("No user’s mean wait changes by a second or more.")
    gain = ngettext("%(n)s user waits less", "%(n)s users wait less", report.n_gain) % {"n": count(report.n_gain)}
    return _("%(gain)s on average, %(lose)s longer.") % {"gain": gain, "lose": count(report.n_lose)}


def idle_sentence(report: VariantReport) -> str:
    """Whose jobs nothing is known of, because there were none."""
    if not report.n_idle:
        return ""
    if report.n_idle > SHOWN_LEAVES:
        return _("Of %(n)s entries no job ran or waited.") % {"n": count(report.n_idle)}
    return _("No job of %(paths)s ran or waited.") % {"paths": ", ".join(report.idle)}


def base_text(detail: ExperimentDetail) -> str:
    """What its variants are variants of."""
    scenario = detail.spec.get("scenario", "")
    if scenario:
        return _("shipped scenario “%(title)s”") % {"title": title_of_scenario(scenario)}
    return _("revision %(n)s") % {"n": detail.row.revision}


def period_text(detail: ExperimentDetail) -> str:
    """How long the simulated time is."""
    if detail.hours is None:
        return ""
    if detail.hours >= 48:
        return f"{number(detail.hours / 24, 0 if detail.hours % 24 == 0 else 1)}{NBSP}d"
    return f"{number(detail.hours, 0)}{NBSP}h"
