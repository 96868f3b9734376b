"""Findings about the usage of sources as sentences, with advice and the headline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.core import clock
from apps.priorities.sentences import numbers
from apps.usage.quality.coverage import Coverage
from apps.usage.quality.findings import DataIssues
from apps.usage.timeliness import Timeliness, interval_s, is_long_late
from apps.web.shell import presentation
from apps.web.texts.source_lines import SourceLine

_BAD, _WARN, _INFO = "bad", "warn", "info"
_ORDER = {_BAD: 0, _WARN: 1, _INFO: 2}


@dataclass(frozen=True, slots=True)
class Finding:
    """One data issue, or an information, about a source. key: of the rule that found it."""

    level: str
    source: str
    text: str
    advice: str
    url: str
    key: str = ""

    @property
    def icon(self) -> str:
        return {_BAD: "alert-octagon", _WARN: "alert-triangle"}.get(self.level, "info-circle")


def findings_of(lines: Sequence[SourceLine], issues: Mapping[str, DataIssues]) -> list[Finding]:
    """Findings about all sources, most severe first, then by source."""
    findings = [finding for line in lines for finding in _of_source(line, issues[line.source.slug])]
    return sorted(findings, key=lambda finding: (_ORDER[finding.level], finding.source))


def verdict(findings: Sequence[Finding], n_sources: int) -> str:
    """The page's heading."""
    n = n_worth(findings)
    if not n_sources:
        return _("No usage sources yet")
    if not n:
        return _("No data issues")
    return ngettext("%(n)s data issue", "%(n)s data issues", n) % {"n": numbers.count(n)}


def n_worth(findings: Sequence[Finding]) -> int:
    """Number of findings that need attention."""
    return sum(finding.level != _INFO for finding in findings)


def _of_source(line: SourceLine, issues: DataIssues) -> list[Finding]:
    """Findings about one source; each rule gives one or none."""
    rules = {
        "late": _late,
        "not_collected": _not_collected,
        "unreported": _unreported,
        "holes": _holes,
        "held": _held,
        "ahead": _ahead,
        "rejected": _rejected,
        "unmapped": _unmapped,
        "too_late": _too_late,
        "changed": _changed,
        "vanished": _vanished,
        "no_processors": _no_processors,
        "overrun": _overrun,
        "unclear": _unclear,
        "kinds": _kinds,
    }
    return [replace(finding, key=key) for key, rule in rules.items() if (finding := rule(line, issues)) is not None]


def _late(line: SourceLine, issues: DataIssues) -> Finding | None:
    if not line.is_behind:
        return None
    is_bad = line.state is Timeliness.NEVER_COLLECTED or is_long_late(line.source, clock.now())
    values = {"at": line.contact, "every": presentation.duration(interval_s(line.source) or 0)}
    text = _("Last contact: %(at)s; expected every %(every)s.") % values
    return _finding(
        _BAD if is_bad else _WARN, line, text, _("Check whether its collector runs and its token is valid.")
    )


def _not_collected(line: SourceLine, issues: DataIssues) -> Finding | None:
    """A source that is collected only manually would never be reported as late."""
    if not line.source.is_collected or line.source.is_paused or line.source.collect_every_s:
        return None
    return _finding(_WARN, line, _("It is collected only by hand."), _("Set how often it is collected."))


def _unreported(line: SourceLine, issues: DataIssues) -> Finding | None:
    """Jobs that left the queue without a record; without them an old newest record is no finding."""
    if not issues.n_unreported:
        return None
    text = ngettext(
        "%(n)s job left the queue, and no record of its end has come; the newest record: %(newest)s.",
        "%(n)s jobs left the queue, and no records of their ends have come; the newest record: %(newest)s.",
        issues.n_unreported,
    ) % {"n": numbers.count(issues.n_unreported), "newest": line.newest}
    return _finding(_WARN, line, text, _("Check whether its collector runs and its token is valid."))


def _holes(line: SourceLine, issues: DataIssues) -> Finding | None:
    hours = sum(day.n_missing for day in issues.days)
    if not hours:
        return None
    days = sum(day.state is not Coverage.FULL for day in issues.days if day.n_missing)
    text = ngettext(
        "%(n)s hour without expected usage, on %(days)s of the days shown.",
        "%(n)s hours without expected usage, on %(days)s of the days shown.",
        hours,
    ) % {"n": numbers.count(hours), "days": days}
    # If a collector has read everything since, no jobs ran in these hours: the system was idle.
    is_read = line.source.is_collected and line.state is Timeliness.ON_TIME and not line.source.collect_error
    level = _INFO if is_read and not issues.n_unreported else _WARN
    return _finding(level, line, text, _("If the system was running, send that period again: duplicates don’t count."))


def _held(line: SourceLine, issues: DataIssues) -> Finding | None:
    if not issues.n_held:
        return None
    text = ngettext(
        "%(n)s stretch of hours also came from another source; it doesn’t count before a decision.",
        "%(n)s stretches of hours also came from another source; they don’t count before a decision.",
        issues.n_held,
    ) % {"n": numbers.count(issues.n_held)}
    finding = _finding(_BAD, line, text, _("Decide whether these are the same jobs."))
    return replace(finding, url=reverse("pages:overlaps"))


def _ahead(line: SourceLine, issues: DataIssues) -> Finding | None:
    if not issues.received.ahead:
        return None
    text = ngettext(
        "%(n)s record ended in the future by our clock and was rejected.",
        "%(n)s records ended in the future by our clock and were rejected.",
        issues.received.ahead,
    ) % {"n": numbers.count(issues.received.ahead)}
    return _finding(_BAD, line, text, _("Set the clocks of both machines, or the source's time zone."))


def _rejected(line: SourceLine, issues: DataIssues) -> Finding | None:
    n = issues.received.rejected - issues.received.ahead
    if n <= 0:
        return None
    total = issues.received.new + issues.received.duplicate + issues.received.corrected + issues.received.rejected
    level = _BAD if n > total * 0.05 else _WARN
    text = ngettext("%(n)s line was rejected.", "%(n)s lines were rejected.", n) % {"n": numbers.count(n)}
    return _finding(level, line, text, _("Correct and send them again."))


def _unmapped(line: SourceLine, issues: DataIssues) -> Finding | None:
    if line.unmapped is None or not line.unmapped.n_accounts:
        return None
    n, core_s = line.unmapped.n_accounts, line.unmapped.core_s
    text = ngettext("%(n)s unmapped account", "%(n)s unmapped accounts", n) % {"n": numbers.count(n)}
    if core_s is not None:
        text = _("%(finding)s: %(hours)s core-h") % {"finding": text, "hours": presentation.hours(core_s)}
    return _finding(
        _WARN, line, text, _("Add a mapping rule; it applies from the next recompute, without a new import.")
    )


def _too_late(line: SourceLine, issues: DataIssues) -> Finding | None:
    n, core_s = issues.too_late
    if not n:
        return None
    text = ngettext(
        "%(n)s record ended before the retention period, and doesn’t count",
        "%(n)s records ended before the retention period, and don’t count",
        n,
    ) % {"n": numbers.count(n)}
    if core_s is not None:
        text = _("%(finding)s: %(hours)s core-h") % {"finding": text, "hours": presentation.hours(core_s)}
    return _finding(_WARN, line, text, _("If it matters, add a usage adjustment."))


def _changed(line: SourceLine, issues: DataIssues) -> Finding | None:
    n, core_s = issues.changed
    if not n:
        return None
    text = ngettext("%(n)s job changed after it had ended", "%(n)s jobs changed after they had ended", n)
    text = text % {"n": numbers.count(n)}
    if core_s is not None:
        text = _("%(finding)s: %(hours)s core-h") % {"finding": text, "hours": presentation.signed_hours(core_s)}
    return _finding(_INFO, line, text, _("The newest version counts."))


def _vanished(line: SourceLine, issues: DataIssues) -> Finding | None:
    if not issues.n_vanished:
        return None
    text = ngettext(
        "%(n)s running job vanished from the listing and was closed at its last report.",
        "%(n)s running jobs vanished from the listing and were closed at their last report.",
        issues.n_vanished,
    ) % {"n": numbers.count(issues.n_vanished)}
    return _finding(_INFO, line, text, _("Their accounting records will replace this."))


def _no_processors(line: SourceLine, issues: DataIssues) -> Finding | None:
    if not issues.n_no_processors:
        return None
    text = ngettext(
        "%(n)s job ran with 0 processors: no usage counts.",
        "%(n)s jobs ran with 0 processors: no usage counts.",
        issues.n_no_processors,
    ) % {"n": numbers.count(issues.n_no_processors)}
    return _finding(_WARN, line, text, _("Correct and send them again."))


def _overrun(line: SourceLine, issues: DataIssues) -> Finding | None:
    if not issues.n_overrun:
        return None
    text = ngettext(
        "%(n)s job is recorded as running for longer than it may: no more of it counts.",
        "%(n)s jobs are recorded as running for longer than they may: no more of them counts.",
        issues.n_overrun,
    ) % {"n": numbers.count(issues.n_overrun)}
    advice = _(
        "Import the log with the end, or withdraw the job. A listing of the queue closes such jobs automatically."
    )
    return _finding(_WARN, line, text, advice)


def _unclear(line: SourceLine, issues: DataIssues) -> Finding | None:
    if not issues.n_unclear:
        return None
    text = ngettext(
        "Lines of the log are missing for %(n)s job: a start, an end, or when it was suspended or changed.",
        "Lines of the log are missing for %(n)s jobs: a start, an end, or when they were suspended or changed.",
        issues.n_unclear,
    ) % {"n": numbers.count(issues.n_unclear)}
    advice = _("Import the files of the missing days, in any order: the jobs are then counted again.")
    return _finding(_WARN, line, text, advice)


def _kinds(line: SourceLine, issues: DataIssues) -> Finding | None:
    """Kinds of GPUs that no weight was given to, where other kinds have one: new machines, mostly."""
    if not issues.of_kinds:
        return None
    named = [
        _("%(kind)s (%(jobs)s, such as %(job)s)") % {"kind": each.kind, "jobs": _jobs(each.n), "job": each.job}
        if each.job
        else _("%(kind)s (%(jobs)s)") % {"kind": each.kind, "jobs": _jobs(each.n)}
        for each in issues.of_kinds
    ]
    text = _("Kinds without a weight of their own count by the default: %(kinds)s.") % {"kinds": ", ".join(named)}
    return _finding(_WARN, line, text, _("Give them a weight in the settings of each policy that weights kinds."))


def _jobs(n: int) -> str:
    return ngettext("%(n)s job", "%(n)s jobs", n) % {"n": numbers.count(n)}


def _finding(level: str, line: SourceLine, text: str, advice: str) -> Finding:
    url = reverse("pages:source", kwargs={"slug": line.source.slug})
    return Finding(level, line.source.name, text, advice, url)
