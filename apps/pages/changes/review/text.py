"""Operations of a change set as one-line sentences with their values before and after."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.pages.changes.review.reviewed_change import LeafLine, ReviewedEdit, ReviewPage
from apps.priorities.sentences import numbers
from apps.web.changes.edit_texts import edit_sentence
from apps.web.shell import field_labels, presentation
from apps.web.texts.value_texts import amount, date_text, key_text, value_text

# By operation: CSS class, icon, and text for screen readers.
MARKS = {
    "set_shares": ("chg", "pencil", gettext_lazy("Changed")),
    "add": ("add", "plus", gettext_lazy("Added")),
    "rename": ("chg", "pencil", gettext_lazy("Changed")),
    "move": ("mov", "arrows-move", gettext_lazy("Moved")),
    "archive": ("del", "archive", gettext_lazy("Archived")),
    "restore": ("add", "arrow-back-up", gettext_lazy("Restored")),
    "set_scope": ("chg", "stack-2", gettext_lazy("Changed")),
    "lock": ("chg", "lock", gettext_lazy("Changed")),
    "set_kind": ("chg", "pencil", gettext_lazy("Changed")),
    "set_dates": ("chg", "calendar", gettext_lazy("Changed")),
    "set_members": ("chg", "user-plus", gettext_lazy("Changed")),
    "mount": ("chg", "world-share", gettext_lazy("Changed")),
    "adjust_usage": ("chg", "history", gettext_lazy("Changed")),
    "allocate": ("chg", "history", gettext_lazy("Changed")),
    "set_policy": ("chg", "adjustments-horizontal", gettext_lazy("Changed")),
    "document": ("chg", "list-tree", gettext_lazy("Changed")),
}
_DEFAULT_MARK = ("chg", "pencil", gettext_lazy("Changed"))


@dataclass(frozen=True, slots=True)
class EditLine:
    """One operation, or one changed setting: a sentence, the value before and after, and its effect on the total."""

    index: int
    key: str
    css: str
    icon: str
    label: str
    sentence: str
    where: str
    before: str
    after: str
    of_total: str
    uid: UUID | None


def edit_lines(page: ReviewPage) -> list[EditLine]:
    """Lines of the edits that the reader may see."""
    stated = [each for edit in page.edits for each in (edit, *page.rewritten.get(edit.index, ()))]
    return [line for edit in stated if not edit.is_hidden for line in _lines(page, edit)]


def sentence_of(page: ReviewPage, index: int) -> str:
    """Sentence of the edit at an index, on which a comment was made; empty if it is hidden or missing."""
    edit = page.edits[index] if 0 <= index < len(page.edits) else None
    return "" if edit is None or edit.is_hidden else _sentence(page, edit)


def settings_lines(
    before: Mapping[str, Any], after: Mapping[str, Any], parts: Sequence[str]
) -> list[tuple[str, str, str]]:
    """(setting, before, after) for each value that differs."""
    differences = []
    for part in parts:
        old, new = before[part], after[part]
        keys = sorted({*old, *new}) if isinstance(old, dict) and isinstance(new, dict) else [""]
        for key in keys:
            was, is_now = (old.get(key), new.get(key)) if key else (old, new)
            if was != is_now:
                name = f"{field_labels.setting(part)}: {key_text(key)}" if key else field_labels.setting(part)
                differences.append((name, value_text(was, key), value_text(is_now, key)))
    return differences


def key_of(operation: Mapping[str, Any]) -> str:
    """Key of the sentence for an operation: its kind, or a variant such as unlock or set_percent."""
    op, shares = str(operation["op"]), operation.get("shares")
    if op == "lock" and not operation.get("locked", True):
        return "unlock"
    if op != "set_shares" or isinstance(shares, int | float):
        return op
    if not isinstance(shares, Mapping):
        return "pass_shares_on"
    source = shares.get("from")
    if source is None:
        return "set_percent"
    return f"take_from_{source if isinstance(source, str) else 'chosen'}"


def _lines(page: ReviewPage, edit: ReviewedEdit) -> Iterator[EditLine]:
    css, icon, label = MARKS.get(str(edit.operation["op"]), _DEFAULT_MARK)
    common: dict[str, Any] = {
        "index": edit.index,
        "key": key_of(edit.operation),
        "css": css,
        "icon": icon,
        "label": str(label),
        "uid": edit.uid,
    }
    if edit.operation["op"] == "set_policy":
        review = page.review
        parts = [part for part in edit.operation["settings"] if part in review.changed_settings]
        for name, before, after in settings_lines(review.settings.parts(), review.wanted.parts(), parts):
            yield EditLine(
                **common,
                sentence=name,
                where=_("the policy"),
                before=before,
                after=after,
                of_total="",
            )
        return
    before, after = _sides(page, edit)
    of_total = (
        ""
        if edit.of_total is None
        else _("%(n)s points of the policy") % {"n": presentation.change(0.0, edit.of_total)}
    )
    where = edit.path.rpartition("/")[0] or page.review.after.name[0]
    yield EditLine(
        **common,
        sentence=_sentence(page, edit),
        where=where if edit.uid else "",
        before=before,
        after=after,
        of_total=of_total,
    )


def _sentence(page: ReviewPage, edit: ReviewedEdit) -> str:
    is_renamed = edit.operation["op"] == "rename" and edit.before is not None
    name = edit.before.name if is_renamed and edit.before else edit.name
    parent = _name(page, edit.after.parent_uid if edit.after else None)
    return edit_sentence(edit.operation, name, parent, lambda uid: _name(page, UUID(str(uid))))


def _sides(page: ReviewPage, edit: ReviewedEdit) -> tuple[str, str]:
    """Texts of the value that the operation changes, before and after."""
    op, before, after = edit.operation["op"], edit.before, edit.after
    if op in ("add", "restore"):
        return _("none"), amount(None if after is None else after.shares, after is not None)
    if op == "archive":
        return _("active"), _("archived")
    if op == "allocate":
        return allocated_text(edit.operation["was"]), allocated_text(edit.operation["amount"])
    if op == "adjust_usage" or before is None or after is None:
        return "", ""
    texts: dict[str, Callable[[Any], str]] = {
        "set_shares": lambda node: presentation.shares_short(node.shares),
        "rename": lambda node: str(node.name),
        "move": lambda node: _name(page, node.parent_uid),
        "set_scope": lambda node: node.scope or _("as above"),
        "lock": lambda node: _("locked") if node.locked else _("open"),
        "set_kind": lambda node: str(node.kind),
        "set_dates": lambda node: date_text(node.dates.to_json() if node.dates else None),
        "set_members": lambda node: _rules(len(node.members)),
        "mount": lambda node: node.mount.issuer if node.mount else _("this site"),
    }
    text = texts.get(op)
    return (text(before), text(after)) if text else ("", "")


def allocated_text(value: float | None) -> str:
    """Amount of an allocation; none before it begins and after it is withdrawn."""
    return _("none") if value is None else numbers.count(value)


def reason_text(line: LeafLine) -> str:
    """Main reason for the change of a leaf's rank."""
    words = {
        "new": _("new"),
        "archived": _("archived"),
        "moved": _("moved with %(name)s") if line.reason_name else _("moved"),
        "own_shares": _("own shares changed"),
        "above_rises": _("target of %(name)s rises"),
        "above_falls": _("target of %(name)s falls"),
        "diluted": _("smaller share of %(name)s"),
        "enlarged": _("larger share of %(name)s"),
        "settings": _("other settings"),
        "others": _("other entries moved"),
    }
    return words[line.reason] % {"name": line.reason_name}


def _rules(n: int) -> str:
    return ngettext("%(n)s rule", "%(n)s rules", n) % {"n": n}


def name_of(page: ReviewPage, uid: str) -> str:
    """Name of an entry whose uid a conflict contains."""
    try:
        return _name(page, UUID(uid))
    except ValueError:
        return uid


def _name(page: ReviewPage, uid: UUID | None) -> str:
    """Name of an entry after the change, or before it; a placeholder if the reader may not see the entry."""
    if uid is None:
        return ""
    for tree, sees in ((page.review.after, page.sees), (page.review.before, page.sees_before)):
        i = tree.index_of_uid(uid)
        if i is not None:
            return tree.name[i] if sees[i] else _("an entry outside your view")
    return _("an entry outside your view")
