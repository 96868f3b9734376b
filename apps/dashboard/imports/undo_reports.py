"""Whether an import can be taken back, how far that is, and why not, as its page says it."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.dashboard.shell import presentation
from apps.runs.models import Run
from apps.usage.models import Import
from apps.usage.records.undo import why_not

_AT_WORK = frozenset({Run.State.QUEUED, Run.State.RUNNING})


@dataclass(frozen=True, slots=True)
class UndoReport:
    """`state`: can, cannot, at_work, stopped or done."""

    state: str
    text: str
    n_records: int
    percent: int | None = None
    code: str = ""  # of what stands against it


def undo_report(usage_import: Import) -> UndoReport | None:
    """None where there is nothing to say: dry runs, and imports at work."""
    run, undoing = usage_import.run, usage_import.undone_run
    if usage_import.dry_run or run.state in _AT_WORK:
        return None
    n_records = int(run.counts.get("new", 0)) + int(run.counts.get("corrected", 0))
    if usage_import.undone_at is not None and undoing is not None:
        return UndoReport("done", _done(undoing), n_records)
    if undoing is not None and undoing.state in _AT_WORK:
        part = min(undoing.progress_done / undoing.progress_total, 1.0) if undoing.progress_total else 0.0
        text = _("%(n)s records removed so far.") % {"n": presentation.count(undoing.progress_done)}
        return UndoReport("at_work", text, n_records, int(part * 100))
    refusal = why_not(usage_import)
    if refusal is not None:
        return UndoReport("cannot", refusal.message, n_records, code=refusal.code)
    if undoing is not None:
        return UndoReport("stopped", undoing.error or _("It was interrupted and continues from there."), n_records)
    return UndoReport("can", "", n_records) if n_records else None


def _done(undoing: Run) -> str:
    removed, back = int(undoing.result.get("removed", 0)), int(undoing.result.get("put_back", 0))
    text = ngettext("%(n)s record was removed", "%(n)s records were removed", removed)
    text %= {"n": presentation.count(removed)}
    if not back:
        return f"{text}."
    more = ngettext("%(n)s earlier version was restored", "%(n)s earlier versions were restored", back)
    return f"{text}, {more % {'n': presentation.count(back)}}."
