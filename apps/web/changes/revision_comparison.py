"""The comparison of two revisions of a policy as a page shows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.policies.tree.revision_diff import EntryDifference
from apps.priorities.selectors import RevisionDiff
from apps.priorities.selectors.revision_differences import Correction
from apps.priorities.sentences import numbers, unit_of
from apps.web.changes.entry_changes import DiffLine, effect, entry_lines
from apps.web.shell import field_labels, lines, presentation
from apps.web.texts import value_texts


def compared_context(compared: RevisionDiff) -> dict[str, Any]:
    """Template context of a comparison."""
    head, between = compared.policy.head_number, abs(compared.after.number - compared.before.number)
    moment = "" if compared.after.number == head else f"?at={compared.after.number}"
    kept = [
        {
            "row": row,
            "before": shares.before,
            "effect": effect(row),
            "after": shares.after,
            "url": lines.entry_url(compared.policy.slug, row.uid, row.name, moment),
        }
        for row in compared.kept
        for shares in [numbers.change_shares(row.target_before, row.target_after)]
    ]
    return {
        "diff": compared,
        "verdict": verdict(compared),
        "before_title": _("Rev %(n)s") % {"n": compared.before.number},
        "after_title": _("Rev %(n)s") % {"n": compared.after.number},
        "between": ngettext("%(n)s revision", "%(n)s revisions", between) % {"n": numbers.count(between)},
        "lines": list(diff_lines(compared, compared.rows, now=head)),
        "settings_rows": settings_rows(compared),
        "corrections": [(each, correction_text(each)) for each in compared.corrections],
        "kept": kept,
    }


def diff_lines(diff: RevisionDiff, rows: Sequence[EntryDifference], *, now: int) -> Iterator[DiffLine]:
    """Rows of a comparison. An entry links to the later of the two revisions that has it."""

    def moment(row: EntryDifference) -> str:
        there = diff.before.number if row.change == "removed" else diff.after.number
        return "" if there == now else f"?at={there}"

    return entry_lines(rows, policy_slug=diff.policy.slug, moment=moment)


def settings_rows(diff: RevisionDiff) -> list[tuple[str, str, str]]:
    """(name, before, after) of each changed setting."""
    return [(setting_name(name), *_setting_values(name, before, after)) for name, before, after in diff.settings]


def setting_name(name: str) -> str:
    """Readable name of a setting: Usage window: half life, for window.half_life_s."""
    part, _dot, keys = name.partition(".")
    words = keys.removesuffix("_s").replace("_", " ").replace(".", ", ")
    return f"{field_labels.setting(part)}: {words}" if words else field_labels.setting(part)


def _setting_values(name: str, before: Any, after: Any) -> tuple[str, str]:
    key = (
        "" if name.startswith("metric.weights.") else name.rpartition(".")[2]
    )  # weights named after core-seconds are not durations
    return value_texts.value_text(before, key), value_texts.value_text(after, key)


def correction_text(correction: Correction) -> str:
    """A usage adjustment with its unit: +12 core-hours."""
    sign = "+" if correction.amount_s > 0 else numbers.MINUS
    unit = unit_of(correction.resource)
    return f"{sign}{presentation.hours(abs(correction.amount_s))} {unit}"


def verdict(diff: RevisionDiff) -> str:
    """Summary such as 12 entries changed, 3 added, 2 settings differ."""
    changed, moved, added, removed = (
        diff.counts["changed"],
        diff.counts["moved"],
        diff.counts["added"],
        diff.counts["removed"],
    )
    n_settings, n_adjustments = len(diff.settings), len(diff.corrections)
    counts = (
        (changed, ngettext("%(n)s entry changed", "%(n)s entries changed", changed)),
        (moved, ngettext("%(n)s moved", "%(n)s moved", moved)),
        (added, ngettext("%(n)s added", "%(n)s added", added)),
        (removed, ngettext("%(n)s archived", "%(n)s archived", removed)),
        (n_settings, ngettext("%(n)s setting changed", "%(n)s settings changed", n_settings)),
        (n_adjustments, ngettext("%(n)s usage adjustment", "%(n)s usage adjustments", n_adjustments)),
    )
    return ", ".join(text % {"n": numbers.count(n)} for n, text in counts if n) or _("No differences")
