"""Pages of one mount: its active version, fetch log, differences to the newest document, and actions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_POST, require_safe

from apps.core import clock
from apps.core.typed_numbers import read_whole
from apps.dashboard.federation import presenters as federation_presenters
from apps.dashboard.federation.actions import SAVED, RemoteAction, common_actions, run_action
from apps.dashboard.federation.forms import (
    STALE_ACTIONS,
    ActionForm,
    LimitsForm,
    SettingsForm,
    TrustForm,
    UnmountForm,
)
from apps.dashboard.federation.publication_presenters import groups_of
from apps.dashboard.history import presenters
from apps.dashboard.shell import lines, presentation
from apps.dashboard.shell.forms import RefusableForm
from apps.dashboard.shell.presentation import KeyedText, joined
from apps.dashboard.shell.requests import actor_of, fragment
from apps.federation import control
from apps.federation.grid.peers import MountablePolicy
from apps.federation.models import Fetch, Mount
from apps.federation.mounts.selectors import ComparedEntry, Differences, load_differences
from apps.federation.mounts.services import get_mount
from apps.federation.staleness import Condition, age_of, condition_of, is_held, is_stale
from apps.policies.tree.stored import load_tree
from apps.runs.models import Run

# --- In words ---------------------------------------------------------------------------------------------------------
_OUTCOMES = {
    Fetch.Outcome.SAME.value: ("ok", gettext_lazy("Unchanged")),
    Fetch.Outcome.APPLIED.value: ("ok", gettext_lazy("applied")),
    Fetch.Outcome.HELD.value: ("warn", gettext_lazy("held")),
    Fetch.Outcome.FROZEN.value: ("off", gettext_lazy("frozen")),
    Fetch.Outcome.REFUSED.value: ("bad", gettext_lazy("Rejected")),
    Fetch.Outcome.UNREACHABLE.value: ("bad", gettext_lazy("No answer")),
}


@dataclass(frozen=True, slots=True)
class FetchLine:
    """One row of the fetch log."""

    fetch: Fetch
    dot: str
    outcome: str
    note: str
    effort: str


@dataclass(frozen=True, slots=True)
class StatedLine:
    """Shares of one entry in the document and in our tree."""

    row: ComparedEntry
    url: str
    stated: str
    inside: str
    asked: str
    here: str
    mark: str


def fetch_line(fetch: Fetch) -> FetchLine:
    dot, label = _OUTCOMES[fetch.outcome]
    version = _("Version %(n)s") % {"n": presentation.count(fetch.version)} if fetch.version else ""
    effort = _("%(name)s in %(parent)s") % {
        "name": federation_presenters.size(fetch.n_bytes),
        "parent": federation_presenters.took(fetch.duration_s),
    }
    effort = effort if fetch.n_bytes else ""
    outcome = f"{version} {str(label).lower()}" if version else str(label).capitalize()
    return FetchLine(fetch, dot, outcome, fetch.message, effort)


def title(mount: Mount, at: datetime) -> KeyedText:
    """Headline with the active version, its issuer, and its age."""
    if not mount.applied_version:
        return KeyedText("nothing_yet", _("No version of %(name)s is active yet") % {"name": mount.issuer})
    age_s = age_of(mount, at)
    words = {"n": presentation.count(mount.applied_version), "name": mount.issuer}
    if age_s is None:
        return KeyedText("active", _("Version %(n)s of %(name)s is active") % words)
    words["age"] = presentation.age(age_s)
    return KeyedText("confirmed", _("Version %(n)s of %(name)s is active, confirmed %(age)s ago") % words)


def next_step(mount: Mount, condition: Condition, at: datetime) -> KeyedText:
    """Sentences on the mount's condition, its effect, and the next fetch."""
    alone = {
        Condition.BLOCKED: _(
            "Blocked: its key changed or its history was forked. It isn’t fetched until an administrator "
            "decides. The current version stays."
        ),
        Condition.PAUSED: _("Paused: it isn’t fetched until you resume it."),
        Condition.FROZEN: _("Frozen: it is fetched, but not applied."),
    }
    if condition in alone:
        return KeyedText(condition, alone[condition])
    found = []
    if condition is Condition.EXPIRED:
        found.append(KeyedText(condition, _("The document has expired, and no newer one was published.")))
    elif condition is Condition.STALE:
        allowed = {"allowed": federation_presenters.allowed_text(mount.max_age_s)}
        found.append(KeyedText(condition, _("The last successful fetch is more than %(allowed)s old.") % allowed))
    elif condition is Condition.LATE:
        found.append(federation_presenters.late_text(mount, federation_presenters.meanwhile(mount.stale_action)))
    if condition in (Condition.EXPIRED, Condition.STALE):
        action = mount.stale_action if is_stale(mount, at) else Mount.StaleAction.KEEP.value
        found.append(federation_presenters.meanwhile(action))
        if mount.state == Mount.State.FROZEN and action != Mount.StaleAction.FREEZE:
            text = _("Frozen: it is fetched, but not applied.")
            found.append(KeyedText("frozen_too", text))
    if mount.due_at is not None:
        is_later = mount.due_at > at
        time = presentation.clock_time(mount.due_at, at) if is_later else _("now")
        found.append(KeyedText("due_later" if is_later else "due_now", f"{_('Next fetch')}: {time}."))
    return joined(found)


def held_text() -> str:
    """Sentence on the version that is held."""
    return _("A newer version exceeds the limits.")


def stated_lines(found: Differences, rows: Iterable[ComparedEntry]) -> list[StatedLine]:
    slug = found.mount.policy.slug
    return [_stated(row, slug) for row in rows]


def stated_verdict(found: Differences) -> str:
    """Sentence on how many entries of our tree match the document."""
    n, n_differing = len(found.stated), found.n_differing
    if not n_differing:
        return ngettext("Its %(n)s entry matches the document", "All %(n)s entries match the document", n) % {
            "n": presentation.count(n)
        }
    return ngettext("%(differing)s of %(n)s entry differs", "%(differing)s of %(n)s entries differ", n) % {
        "differing": presentation.count(n_differing),
        "n": presentation.count(n),
    }


def _stated(row: ComparedEntry, slug: str) -> StatedLine:
    mark = ""
    if not row.in_tree:
        mark = _("not in our tree yet")
    elif not row.in_document:
        mark = _("no longer in the document")
    return StatedLine(
        row=row,
        url=lines.entry_url(slug, row.uid, row.name) if row.in_tree else "",
        stated=presentation.shares_short(row.shares_stated) if row.in_document else presentation.UNKNOWN,
        inside=presentation.percent(row.inside),
        asked=presentation.percent(row.asked),
        here=presentation.percent(row.here),
        mark=mark,
    )


def page_of(rows: Sequence[ComparedEntry], start: int, most: int) -> tuple[Sequence[ComparedEntry], int | None]:
    """One page of a list, and the index of the next page or None."""
    return rows[start : start + most], start + most if len(rows) > start + most else None


# --- Views ------------------------------------------------------------------------------------------------------------
_NEWEST, _PAGE = 8, 50
_AT_WORK = (Run.State.QUEUED, Run.State.RUNNING)
_MOST_DIGITS = 12


def page_url(mount: int, **_kwargs: Any) -> str:
    return reverse("dashboard:federation-mount", args=[mount])


@require_safe
def mount(request: HttpRequest, mount: int) -> HttpResponse:
    return _show(request, _found(request, mount))


@require_safe
@fragment(page_url)
def now(request: HttpRequest, mount: int) -> HttpResponse:
    """Fragment with the state of the mount, which is polled; the rest of the page stays."""
    return render(request, "dashboard/federation/_now.html", _now(request, _found(request, mount)))


@require_safe
def timeline(request: HttpRequest, mount: int) -> HttpResponse:
    """Fetch log, newest first; `?before=` continues it."""
    found = _found(request, mount)
    before = _number(request, "before")
    rows = Fetch.objects.filter(mount=found, **({"id__lt": before} if before else {})).order_by("-id")[: _PAGE + 1]
    shown = list(rows)
    context = {
        "mount": found,
        "fetches": [fetch_line(each) for each in shown[:_PAGE]],
        "older": shown[_PAGE - 1].pk if len(shown) > _PAGE else None,
        **_crumbs(found, _("Fetch log")),
    }
    return render(request, "dashboard/federation/timeline.html", context)


@require_safe
def difference(request: HttpRequest, mount: int) -> HttpResponse:
    """Changes that the newest document would make, and the shares of its entries there and here."""
    found = _found(request, mount)
    compared = load_differences(found)
    context: dict[str, Any] = {"mount": found, "compared": compared, **_crumbs(found, _("Differences"))}
    context["headline"] = title(found, clock.now()) if compared is None else stated_verdict(compared)
    if compared is not None:
        cursor, start = _number(request, "cursor") or 0, _number(request, "from") or 0
        rows = list(compared.diff.rows(cursor, cursor + _PAGE)) if compared.diff else []
        stated, later = page_of(compared.stated, start, 2 * _PAGE)
        context |= {
            "lines": list(presenters.entry_lines(rows, policy_slug=found.policy.slug)),
            "n_rows": compared.diff.n_rows if compared.diff else 0,
            "next_cursor": cursor + _PAGE if compared.diff and compared.diff.n_rows > cursor + _PAGE else None,
            "before_title": _("Active"),
            "after_title": _("Version %(n)s") % {"n": presentation.count(found.version)},
            "stated": stated_lines(compared, stated),
            "later": later,
            "start": start,
            "review_url": _review_url(found),
        }
    return render(request, "dashboard/federation/difference.html", context)


@require_POST
def act(request: HttpRequest, mount: int) -> HttpResponse:
    """Run an action on a mount: fetch, pause, resume, freeze, unfreeze, settings, trust, reset or unmount."""
    found = _found(request, mount)

    def show_refused(form: RefusableForm, status: int) -> HttpResponse:
        return _show(request, found, status=status, **{_FORM_OF.get(type(form), "action_form"): form})

    return run_action(request, "mount", mount, _ACTIONS, page_url=page_url(mount), show_refused=show_refused)


_ACTIONS = {
    **common_actions(when_fetching=SAVED, after_reset=SAVED),
    "settings": RemoteAction(
        SettingsForm, control.change_settings, arguments=lambda form: {"settings": form.settings()}
    ),
    "unmount": RemoteAction(
        UnmountForm, control.remove, gettext_lazy("Unmounted: the entries below are yours, as they are now.")
    ),
}
_FORM_OF: dict[type[RefusableForm], str] = {SettingsForm: "limits", TrustForm: "trust", UnmountForm: "leave"}


def _found(request: HttpRequest, mount: int) -> Mount:
    return get_mount(mount_id=mount, actor=actor_of(request), at=clock.now())


def _show(request: HttpRequest, found: Mount, *, status: int = 200, **forms: RefusableForm) -> HttpResponse:
    newest = list(Fetch.objects.filter(mount=found).order_by("-id")[: _NEWEST + 1])
    limits = forms.get("limits") or SettingsForm(initial=LimitsForm.initial_of(found))
    context = {
        **_now(request, found),
        "fetches": [fetch_line(each) for each in newest[:_NEWEST]],
        "has_older": len(newest) > _NEWEST,
        "groups": groups_of(found.fingerprint),
        "action_form": forms.get("action_form") or ActionForm(),
        "limits": limits,
        "trust": forms.get("trust") or TrustForm(),
        "leave": forms.get("leave") or UnmountForm(),
        "is_changing": "limits" in forms,
        "is_trusting": "trust" in forms,
        "is_leaving": "leave" in forms,
        "actions": STALE_ACTIONS,
        "has_token": bool(found.sealed_token),
        **_crumbs(found),
    }
    return render(request, "dashboard/federation/mount.html", context, status=status)


def _now(request: HttpRequest, found: Mount) -> dict[str, Any]:
    at = clock.now()
    held = is_held(found)
    condition = condition_of(found, is_held=held, at=at)
    path, effect = MountablePolicy(found.policy, at, actor_of(request)).where(found.entry_uid)
    age_s = age_of(found, at)
    tree = load_tree(found.policy)
    i = tree.index_of_uid(found.entry_uid)
    return {
        "mount": found,
        "standing": federation_presenters.STANDINGS[condition],
        "title": title(found, at),
        "next_step": next_step(found, condition, at),
        "condition": condition,
        "entry_path": path,
        "entry_url": lines.entry_url(found.policy.slug, found.entry_uid, path.rpartition("/")[2]),
        "allowed": federation_presenters.allowed_text(found.max_age_s),
        "effect": presentation.percent(effect),
        "n_below": 0 if i is None else int(tree.subtree_mask(i).sum()) - 1,
        "age": federation_presenters.age_of_allowed(age_s, found.max_age_s),
        "meter": federation_presenters.meter(age_s, found.max_age_s),
        "review_url": _review_url(found) if held else "",
        "held_text": held_text() if held else "",
        "is_at_work": _is_at_work(found),
        "is_asked": condition not in (Condition.PAUSED, Condition.BLOCKED),
    }


def _is_at_work(found: Mount) -> bool:
    return Run.objects.filter(kind="federation_fetch", subject=f"mount:{found.pk}", state__in=_AT_WORK).exists()


def _review_url(found: Mount) -> str:
    return reverse("dashboard:change", args=[found.held.pk]) if found.held is not None else ""


def _number(request: HttpRequest, name: str) -> int | None:
    return read_whole(request.GET.get(name, ""), _MOST_DIGITS)


def _crumbs(found: Mount, last: str = "") -> dict[str, Any]:
    crumbs: list[dict[str, Any]] = [
        {"label": _("Federation"), "url": reverse("dashboard:federation")},
        {"label": str(found)},
    ]
    if last:
        crumbs[-1]["url"] = page_url(found.pk)
        crumbs.append({"label": last})
    return {"crumbs": crumbs}
