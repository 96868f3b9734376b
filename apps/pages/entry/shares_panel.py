"""The side panel of an entry's shares: its template context, from what was typed or from the policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django import forms
from django.http import HttpRequest
from django.utils.translation import gettext as _

from apps.accounts.selectors import display_name
from apps.core.errors import Conflict, Invalid
from apps.pages.entry.forms import SharesForm
from apps.pages.entry.presenters import draw_effect
from apps.policies.changesets.conflicts import EditConflict, FieldConflict
from apps.priorities.records import EntryRow
from apps.priorities.selectors.history import HistoryLine, history_lines
from apps.priorities.selectors.rows import PolicyView, open_view
from apps.priorities.shares_preview import SharesPreview, preview_shares
from apps.web import bounds
from apps.web.changes.edit_refusals import message_of
from apps.web.changes.share_input import Percentage, Shares, read_typed_shares
from apps.web.shell import lines, presentation
from apps.web.shell.requests import actor_of

MOST_PANEL_GIVERS = 100
_MOST_SEARCHED_CHANGES = 20  # among which the one of the shares is looked for


@dataclass(frozen=True, slots=True)
class ConflictNote:
    """What another person changed meanwhile. current: their shares, "" where it isn't the entry's own."""

    headline: str
    text: str
    current: str


@dataclass(frozen=True)
class Typed:
    """Values of the panel's fields."""

    shares: str
    giver: str = ""
    reason: str = ""


def panel_context(
    request: HttpRequest,
    policy: str,
    uid: UUID,
    *,
    place: UUID | None = None,
    form: SharesForm | None = None,
    conflict: Conflict | None = None,
    drafted: str = "",
) -> dict[str, Any]:
    """Context of the panel; `panel` in it is None for an entry whose shares the actor can't change.

    place: the entry whose page shows it; by default the same. form: as posted, with its errors. drafted: shares from
    the address, as the fair line and the palette draft them; they stay in the field, with what is wrong with them.
    """
    view = open_view(policy_slug=policy, actor=actor_of(request))
    entry = view.row(view.require(uid))
    if not entry.may_change:
        return {"panel": None}
    typed = Typed(presentation.shares(entry.shares))
    preview, problem = None, ""
    if form is not None:
        typed = Typed(form.data.get("shares", ""), form.data.get("giver", ""), form.data.get("reason", ""))
        preview = _preview_or_none(request, policy, uid, form)
        problem = str(form.errors["shares"][0]) if "shares" in form.errors else ""
    elif drafted:
        typed = Typed(drafted[: bounds.NUMBER])
        preview, problem = _preview_of_draft(request, policy, uid, typed.shares)
    preview = preview or preview_shares(policy_slug=policy, entry_uid=uid, actor=actor_of(request))
    place_row = view.row(view.require(place)) if place else entry
    return {
        "policy": policy,
        "panel": entry,
        "panel_whole": preview.whole,
        "panel_total": lines.whole_of(row.before for row in preview.rows),
        "panel_place": place_row.uid,
        "close_url": lines.entry_url(policy, place_row.uid, place_row.name),
        "typed": typed,
        "form": form,
        "problem": problem,
        "base_revision": preview.base_revision if form is None or conflict else form.data.get("base_revision", ""),
        "givers": givers_of(preview),
        "conflict": None if conflict is None else _note(view, uid, typed, conflict),
        **effect_context(preview, policy),
    }


def effect_context(preview: SharesPreview, policy: str) -> dict[str, Any]:
    return {"effect": draw_effect(preview, policy_slug=policy), "policy": policy}


def givers_of(preview: SharesPreview) -> Sequence[EntryRow]:
    """Siblings that can pay for a change, the largest first."""
    if preview.changed.before.shares is None:
        return []
    able = [row.before for row in preview.rows if not row.is_changed and row.before.may_change and row.before.shares]
    return sorted(able, key=lambda row: -(row.shares or 0.0))[:MOST_PANEL_GIVERS]


def _preview_or_none(request: HttpRequest, policy: str, uid: UUID, form: SharesForm) -> SharesPreview | None:
    shares: Shares | Percentage | None = form.cleaned_data.get("shares")
    if shares is None:
        return None
    try:
        return preview_shares(
            policy_slug=policy, entry_uid=uid, shares=shares, giver=form.giver_uid, actor=actor_of(request)
        )
    except (Invalid, Conflict) as error:
        if not form.errors:
            form.add_refusal(error)
        return None


def _preview_of_draft(request: HttpRequest, policy: str, uid: UUID, drafted: str) -> tuple[SharesPreview | None, str]:
    """The preview, or what is wrong with the shares."""
    try:
        shares = read_typed_shares(drafted)
        return preview_shares(policy_slug=policy, entry_uid=uid, shares=shares, actor=actor_of(request)), ""
    except forms.ValidationError as error:
        return None, error.messages[0]
    except (Invalid, Conflict) as error:
        return None, message_of(error)


def _note(view: PolicyView, uid: UUID, typed: Typed, conflict: Conflict) -> ConflictNote:
    own = next((each for each in _fields(conflict) if each.entry == uid and each.field == "shares"), None)
    if own is None:
        return ConflictNote(_("The policy changed while you edited."), " ".join(_lines(conflict)), "")
    changes = history_lines(view, uid, until=view.revision, limit=_MOST_SEARCHED_CHANGES)
    changed = next((line for line in changes if any(name == "shares" for name, *_both in line.fields)), None)
    return ConflictNote(_headline(view, own, changed), _both_values(own, typed), _shares_text(own.theirs))


def _headline(view: PolicyView, own: FieldConflict, changed: HistoryLine | None) -> str:
    values: Mapping[str, Any] = {
        "name": own.path.rpartition("/")[2],
        "shares": _shares_text(own.theirs),
        "who": display_name(changed.author) if changed else "",
        "at": presentation.clock_time(changed.at, view.now) if changed else "",
    }
    if changed is None:
        return _("%(name)s has %(shares)s shares now.") % values
    return _("%(who)s set %(name)s to %(shares)s shares at %(at)s.") % values


def _both_values(own: FieldConflict, typed: Typed) -> str:
    values = {"base": _shares_text(own.base), "mine": typed.shares}
    return _("It was %(base)s when you began; yours is %(mine)s.") % values


def _fields(conflict: Conflict) -> Sequence[FieldConflict]:
    return conflict.conflicts if isinstance(conflict, EditConflict) else ()


def _lines(conflict: Conflict) -> Sequence[str]:
    """Base, present and typed value of each conflicting field; the message of errors without fields."""
    return [
        presentation.field_conflict(each.path, each.field, base=each.base, current=each.theirs, wanted=each.mine)
        for each in _fields(conflict)
    ] or [conflict.message]


def _shares_text(value: object) -> str:
    return presentation.shares(float(value)) if isinstance(value, int | float) else presentation.shares(None)
