"""Report of an import for pages: progress, counts, notes of the parser, and what to do about a failure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils import formats, timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.core.code_paths import command_name
from apps.core.sizes import in_shown_unit
from apps.priorities.sentences import numbers as number_texts
from apps.runs.models import Run
from apps.runs.waiting import RunWaiting, waiting_of
from apps.usage.models import Import
from apps.web.shell import presentation

UNFINISHED = frozenset({Run.State.QUEUED, Run.State.RUNNING})
_BAR = 640
_ANNOUNCED_EVERY = 25


@dataclass(frozen=True, slots=True)
class Step:
    key: str
    title: str
    text: str
    state: str  # done, current, later


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a running import. percent: None while the size of the file is unknown.

    key: waiting, stopping, reading or percent.
    """

    percent: int | None
    bar: str
    key: str
    words: str
    left: str
    read: str
    rate: str


@dataclass(frozen=True, slots=True)
class Kpi:
    key: str
    label: str
    value: str
    note: str


@dataclass(frozen=True, slots=True)
class ImportReport:
    """One import as its page shows it. key: of the heading. n_wanted: records that a real import would write.

    has_counts: there are some to show; lines that only were read, as of a file of another format, are none.
    """

    is_unfinished: bool
    state: str
    key: str
    heading: str
    text: str
    advice: str
    waiting: str
    kpis: Sequence[Kpi]
    has_counts: bool
    steps: Sequence[Step]
    progress: Progress | None
    announcement: str
    n_rejected: int
    n_wanted: int
    can_confirm: bool


def import_report(usage_import: Import, now: datetime) -> ImportReport:
    run = usage_import.run
    counts = _counts(run.counts)
    is_unfinished = run.state in UNFINISHED
    progress = _progress(run, counts, now) if is_unfinished else None
    waiting = waiting_of(run, at=now)
    key, heading, text, advice = _verdict(usage_import, counts, progress, waiting)
    wanted = counts["new"] + counts["corrected"] + counts.get("withdrawn", 0)
    dry_and_done = usage_import.dry_run and run.state == Run.State.SUCCEEDED
    return ImportReport(
        is_unfinished=is_unfinished,
        state=str(run.state),
        key=key,
        heading=heading,
        text=text,
        advice=advice,
        waiting="" if waiting is None else waiting.sentence,
        has_counts=run.state == Run.State.SUCCEEDED or any(n for name, n in counts.items() if name != "lines"),
        kpis=_kpis(counts, is_dry=usage_import.dry_run),
        steps=_steps(usage_import),
        progress=progress,
        announcement=_announcement(progress) or heading,
        n_rejected=counts["rejected"],
        n_wanted=wanted,
        can_confirm=dry_and_done and bool(wanted) and bool(usage_import.stored_path),
    )


def import_line(usage_import: Import, now: datetime) -> tuple[str, str, str]:
    """One row of a list of imports: text, badge, and the badge's CSS class."""
    run, counts = usage_import.run, _counts(usage_import.run.counts)
    who = _("by %(name)s") % {"name": usage_import.owner} if usage_import.owner else _("by command")
    if waiting := waiting_of(run, at=now):
        return f"{who} · {waiting.sentence}", _("waiting"), ""
    if run.state == Run.State.RUNNING:
        progress = _progress(run, counts, now)
        return progress.words, _("running"), "accent"
    if run.state == Run.State.FAILED:
        return _failure(run.error_code)[1], _("failed"), "bad"
    if run.state == Run.State.CANCELLED:
        return who, _("Stopped"), ""
    numbers = {"new": number_texts.count(counts["new"]), "rejected": number_texts.count(counts["rejected"]), "who": who}
    text = _("%(new)s new, %(rejected)s rejected, %(who)s") % numbers
    return text, _("Dry run") if usage_import.dry_run else "", ""


def reasons(by_code: Mapping[str, int]) -> str:
    """Reasons for rejected lines with their counts, such as “24 end before start, 8 too few columns”."""
    most_first = sorted(by_code.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{number_texts.count(n)} {reason(code)}" for code, n in most_first)


def reason(code: str) -> str:
    """Words for a reason's code, such as “end before start” for `end_before_start`."""
    return code.replace("_", " ")


def size(n_bytes: int) -> str:
    """A size such as 48 MB, with one decimal below ten."""
    value, unit = in_shown_unit(n_bytes)
    if unit == "B":
        return ngettext("%(n)s byte", "%(n)s bytes", n_bytes) % {"n": n_bytes}
    return f"{number_texts.number(value, 1 if round(value, 1) < 10 else 0)}{number_texts.NBSP}{unit}"


def _counts(tally: Mapping[str, int]) -> dict[str, int]:
    return {"new": 0, "duplicate": 0, "corrected": 0, "late": 0, "too_late": 0, "rejected": 0, "lines": 0} | dict(tally)


def _progress(run: Run, counts: Mapping[str, int], now: datetime) -> Progress:
    part = min(run.progress_done / run.progress_total, 1.0) if run.progress_total else None
    percent = int(part * 100) if part is not None else None
    elapsed = presentation.seconds_between(run.started_at, now) if run.started_at else 0.0
    left = ""
    if part and 0.02 < part < 1 and elapsed >= 3:
        left = _("about %(age)s left") % {"age": presentation.age(elapsed * (1 - part) / part)}
    if run.state == Run.State.QUEUED:
        key, words = "waiting", _("Waiting")
    elif run.cancel_requested:
        key, words = "stopping", _("Stopping")
    elif percent is None:
        key, words = "reading", _("Reading")
    else:
        key, words = "percent", _("%(n)s %% read") % {"n": percent}
    per_second = counts["lines"] / elapsed if elapsed >= 1 else 0
    return Progress(
        percent=percent,
        bar=f"{_BAR * (part or 0):.1f}",
        key=key,
        words=words,
        left=left,
        read=ngettext("%(n)s line", "%(n)s lines", counts["lines"]) % {"n": number_texts.count(counts["lines"])},
        rate=_("%(n)s a second") % {"n": number_texts.count(round(per_second))} if per_second >= 1 else "",
    )


def _announcement(progress: Progress | None) -> str:
    """Progress for screen readers, rounded to quarters so that it does not interrupt every two seconds."""
    if progress is None:
        return ""
    if progress.percent is None:
        return progress.words
    return _("%(n)s %% read") % {"n": progress.percent // _ANNOUNCED_EVERY * _ANNOUNCED_EVERY}


def _verdict(
    usage_import: Import, counts: Mapping[str, int], progress: Progress | None, waiting: RunWaiting | None
) -> tuple[str, str, str, str]:
    """Key of the heading, heading, explanation, and advice."""
    run = usage_import.run
    if progress is not None:
        dry = _("Nothing was stored.")
        real = _("You may close this page.")
        text = dry if usage_import.dry_run else real
        return progress.key, progress.words, text if waiting is None else f"{waiting.sentence} {text}", ""
    if run.state == Run.State.FAILED:
        key, heading, advice = _failure(run.error_code)
        return key, heading, run.error, advice
    if run.state == Run.State.CANCELLED:
        advice = _("Send the file again to add the rest.")
        return "stopped", _("Stopped"), _("Nothing was stored.") if usage_import.dry_run else advice, ""
    return *_result(counts, is_dry=usage_import.dry_run), _contents(usage_import, counts), ""


def _result(counts: Mapping[str, int], *, is_dry: bool) -> tuple[str, str]:
    new, rejected = counts["new"], counts["rejected"]
    if not new and not counts["corrected"]:
        if counts["duplicate"] and not rejected:
            return "all_here", _("All records are duplicates")
        if rejected:
            bad = ngettext(
                "Nothing added: %(n)s line can’t be read", "Nothing added: %(n)s lines can’t be read", rejected
            )
            return "nothing_read", bad % {"n": number_texts.count(rejected)}
        return "nothing_new", _("Nothing added")
    words = (
        ngettext("%(n)s new record", "%(n)s new records", new)
        if is_dry
        else ngettext("%(n)s record added", "%(n)s records added", new)
    )
    key, text = "would_add" if is_dry else "added", words % {"n": number_texts.count(new)}
    if not rejected:
        return key, text
    bad = ngettext("%(n)s line can’t be read", "%(n)s lines can’t be read", rejected)
    return f"{key}_in_part", f"{text}, {bad % {'n': number_texts.count(rejected)}}"


def _contents(usage_import: Import, counts: Mapping[str, int]) -> str:
    """Sentences on the period, number of accounts and core-hours of the file, and on records that were ignored."""
    sentences = []
    result = usage_import.run.result
    facts = []
    if usage_import.first_start_at and usage_import.last_end_at:
        first, last = (timezone.localtime(at) for at in (usage_import.first_start_at, usage_import.last_end_at))
        facts.append(
            _("%(first)s to %(last)s")
            % {"first": formats.date_format(first, "j F Y"), "last": formats.date_format(last, "j F Y")}
        )
    if "n_accounts" in result:
        n = int(result["n_accounts"])
        facts.append(ngettext("%(n)s account", "%(n)s accounts", n) % {"n": number_texts.count(n)})
    if "cpu_s" in result:
        facts.append(_("%(n)s core-hours") % {"n": presentation.hours(float(result["cpu_s"]))})
    if facts:
        sentences.append(", ".join(facts) + ".")
    if counts["late"]:
        late = ngettext(
            "%(n)s record is older than the stored one and changes nothing.",
            "%(n)s records are older than the stored ones and change nothing.",
            counts["late"],
        )
        sentences.append(late % {"n": number_texts.count(counts["late"])})
    if counts["too_late"]:
        too_late = ngettext(
            "%(n)s record is too late: its hours are closed. It is listed with its amount, but not counted.",
            "%(n)s records are too late: their hours are closed. They are listed with their amounts, but not counted.",
            counts["too_late"],
        )
        sentences.append(too_late % {"n": number_texts.count(counts["too_late"])})
    return " ".join(sentences)


def _kpis(counts: Mapping[str, int], *, is_dry: bool) -> list[Kpi]:
    total = sum(counts[name] for name in ("new", "duplicate", "corrected", "late", "too_late", "rejected"))
    rejected = number_texts.percent(counts["rejected"] / total, 2) if counts["rejected"] and total else _("lines")
    changed = _("would change") if is_dry else _("Changed")
    return [
        Kpi("new", _("New"), number_texts.count(counts["new"]), _("Records")),
        Kpi("duplicate", _("Duplicates"), number_texts.count(counts["duplicate"]), _("ignored")),
        Kpi("corrected", _("Corrected"), number_texts.count(counts["corrected"]), changed),
        Kpi("late", _("Older or too late"), number_texts.count(counts["late"] + counts["too_late"]), _("ignored")),
        Kpi("rejected", _("Rejected"), number_texts.count(counts["rejected"]), rejected),
    ]


def _steps(usage_import: Import) -> list[Step]:
    """Steps of the import; a file that was imported at once has no dry run."""
    is_open = usage_import.run.state in UNFINISHED
    steps = [
        ("file", _("File"), _("%(size)s received") % {"size": size(usage_import.n_bytes)}),
        ("import", _("Import"), ""),
        ("result", _("Result"), _("Imported")),
    ]
    if usage_import.dry_run:
        steps.insert(1, ("dry", _("Dry run"), _("check, then choose")))
    here = "dry" if usage_import.dry_run else "import" if is_open else "result"
    current = [name for name, _title, _text in steps].index(here)
    return [
        Step(name, title, text, "current" if n == current else "done" if n < current else "later")
        for n, (name, title, text) in enumerate(steps)
    ]


def _failure(code: str) -> tuple[str, str, str]:
    """Key, heading and advice for the error code of a failed import; the run's own error has the details."""
    by_command = {"command": command_name("import_usage")}
    known = {
        "corrupt_gzip": (
            _("The compressed file is damaged"),
            _("Send it again."),
        ),
        "expands_too_much": (
            _("The file is too large"),
            _("Split it, or ask an administrator to run “%(command)s”.") % by_command,
        ),
        "unknown_format": (
            _("The format isn’t recognised"),
            _("Fix the file or choose another format, and send it again."),
        ),
        "wrong_format": (
            _("The file is of another format"),
            _("Choose that format or “detect automatically”, and send it again."),
        ),
        "xml_doctype": (
            _("The XML declares a document type"),
            _("Fix the file or choose another format, and send it again."),
        ),
        "cut_off": (_("The listing is truncated"), _("Send it again.")),
        "no_listing": (_("The document lists no jobs"), _("Send what “qstat -xml” writes.")),
        "nested_too_deep": (
            _("The XML is nested too deeply"),
            _("This is not a list of job records: send another file."),
        ),
        "markup_too_long": (
            _("The XML can’t be read in parts"),
            _("This is not a list of job records: send another file."),
        ),
        "not_jobs": (
            _("The messages contain no individual jobs"),
            _("This is not a list of job records: send another file."),
        ),
        "no_header": (_("The first line is missing"), _("Fix the file or choose another format, and send it again.")),
        "no_start_time": (
            _("Its times have no start line"),
            _("Fix the file or choose another format, and send it again."),
        ),
        "too_large": (
            _("The file is too large"),
            _("Split it, or ask an administrator to run “%(command)s”.") % by_command,
        ),
        "worker_lost": (
            _("Its worker failed repeatedly"),
            _("Contact your administrator."),
        ),
        "file_gone": (_("The file was deleted"), _("Send it again.")),
    }
    again = _("Fix the cause, then send the file again: a record counts once.")
    return (f"failed.{code}", *known[code]) if code in known else ("failed", _("The import failed"), again)
