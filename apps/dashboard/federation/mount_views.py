"""One mount: what is in force and from whom, its looks, the document beside our tree, and what can be done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_POST, require_safe

from apps.core import clock
from apps.core.errors import DomainError, Invalid, NotAllowed, NotFound
from apps.core.typed_numbers import read_whole
from apps.dashboard.federation import presenters as federation_lines
from apps.dashboard.federation.forms import (
    STALE_ACTIONS,
    DeedForm,
    LimitsForm,
    ReasonForm,
    RemoteForm,
    SettingsForm,
    TrustForm,
    UnmountForm,
)
from apps.dashboard.history import presenters
from apps.dashboard.shell import lines, presentation
from apps.dashboard.shell.presentation import KeyedText, joined
from apps.dashboard.shell.requests import SeeOther, actor_of, fragment
from apps.federation import control
from apps.federation.grid.peers import MountablePolicy
from apps.federation.models import Fetch, Mount
from apps.federation.mounts.selectors import ComparedEntry, Differences, load_differences
from apps.federation.mounts.services import get_mount, unmount
from apps.federation.staleness import Condition, age_of, condition_of, is_held, is_stale
from apps.policies.tree.stored import load_tree
from apps.runs.models import Run

# --- In words ---------------------------------------------------------------------------------------------------------
_OUTCOMES = {
    Fetch.Outcome.SAME.value: ("ok", gettext_lazy("Unchanged")),
    Fetch.Outcome.LANDED.value: ("ok", gettext_lazy("applied")),
    Fetch.Outcome.HELD.value: ("warn", gettext_lazy("held")),
    Fetch.Outcome.FROZEN.value: ("off", gettext_lazy("frozen")),
    Fetch.Outcome.REFUSED.value: ("bad", gettext_lazy("Rejected")),
    Fetch.Outcome.UNREACHABLE.value: ("bad", gettext_lazy("No answer")),
}


@dataclass(frozen=True, slots=True)
class Look:
    """One line of the timeline."""

    fetch: Fetch
    dot: str
    outcome: str
    note: str
    effort: str


@dataclass(frozen=True, slots=True)
class StatedLine:
    """One entry of the document beside ours."""

    row: ComparedEntry
    url: str
    stated: str
    inside: str
    asked: str
    here: str
    mark: str


def look(fetch: Fetch) -> Look:
    dot, outcome = _OUTCOMES[fetch.outcome]
    said = _("Version %(n)s") % {"n": presentation.count(fetch.version)} if fetch.version else ""
    effort = _("%(name)s in %(parent)s") % {
        "name": size(fetch.n_bytes),
        "parent": federation_lines.took(fetch.duration_s),
    }
    effort = effort if fetch.n_bytes else ""
    return Look(fetch, dot, f"{outcome}, {said}" if said else str(outcome), fetch.message, effort)


def size(n_bytes: int) -> str:
    """212 kB."""
    if n_bytes < 1_000:
        return f"{n_bytes}{presentation.NBSP}B"
    if n_bytes < 1_000_000:
        return f"{presentation.count(n_bytes / 1_000)}{presentation.NBSP}kB"
    return f"{presentation.number(n_bytes / 1_000_000, 1)}{presentation.NBSP}MB"


def title(mount: Mount, at: datetime) -> KeyedText:
    """What is in force, from whom, how old: the sentence on top."""
    if not mount.landed_version:
        return KeyedText("nothing_yet", _("No version of %(name)s is active yet") % {"name": mount.issuer})
    age_s = age_of(mount, at)
    said = {"n": presentation.count(mount.landed_version), "name": mount.issuer}
    if age_s is None:
        return KeyedText("in_force", _("Version %(n)s of %(name)s is active") % said)
    said["age"] = presentation.age(age_s)
    return KeyedText("confirmed", _("Version %(n)s of %(name)s is active, confirmed %(age)s ago") % said)


def next_step(mount: Mount, condition: Condition, at: datetime) -> KeyedText:
    """What holds, and what would happen next."""
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
    told = []
    if condition is Condition.EXPIRED:
        told.append(KeyedText(condition, _("The document has expired, and no newer one was published.")))
    elif condition is Condition.STALE:
        allowed = {"allowed": federation_lines.allowed_words(mount.max_age_s)}
        told.append(KeyedText(condition, _("The last successful fetch is more than %(allowed)s old.") % allowed))
    elif condition is Condition.HELD:
        text = _("A newer version exceeds the limits and waits for a decision.")
        told.append(KeyedText(condition, text))
    elif condition is Condition.LATE:
        told.append(federation_lines.late_words(mount, federation_lines.meanwhile(mount.stale_action)))
    if condition in (Condition.EXPIRED, Condition.STALE):
        action = mount.stale_action if is_stale(mount, at) else Mount.StaleAction.KEEP.value
        told.append(federation_lines.meanwhile(action))
        if mount.state == Mount.State.FROZEN and action != Mount.StaleAction.FREEZE:
            text = _("Frozen: it is fetched, but not applied.")
            told.append(KeyedText("frozen_too", text))
    if mount.due_at is not None and mount.due_at > at:
        time = {"time": presentation.clock_time(mount.due_at, at)}
        told.append(KeyedText("due_later", f"{_('Next fetch')}: {time['time']}."))
    elif mount.due_at is not None:
        told.append(KeyedText("due_now", f"{_('Next fetch')}: {_('now')}."))
    return joined(told)


def held_words(mount: Mount) -> str:
    """Which version waits, and what for."""
    return _("A newer version exceeds the limits and waits for a decision.") % {"n": presentation.count(mount.version)}


def stated_lines(found: Differences, rows: Iterable[ComparedEntry]) -> list[StatedLine]:
    slug = found.mount.policy.slug
    return [_stated(row, slug) for row in rows]


def stated_verdict(found: Differences) -> str:
    """All 12 entries are in our tree as the document says; or how many aren't."""
    n, odd = len(found.stated), found.n_differing
    if not odd:
        return ngettext("Its %(n)s entry matches the document", "All %(n)s entries match the document", n) % {
            "n": presentation.count(n)
        }
    return ngettext("%(odd)s of %(n)s entry differs", "%(odd)s of %(n)s entries differ", n) % {
        "odd": presentation.count(odd),
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
    """A part of a list, and where the next one begins."""
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
    """The sentence on top, again and again; nothing else of the page moves."""
    return render(request, "dashboard/federation/_now.html", _now(request, _found(request, mount)))


@require_safe
def timeline(request: HttpRequest, mount: int) -> HttpResponse:
    """Every look that is kept, newest first; `?before=` goes on."""
    found = _found(request, mount)
    before = _number(request, "before")
    rows = Fetch.objects.filter(mount=found, **({"id__lt": before} if before else {})).order_by("-id")[: _PAGE + 1]
    shown = list(rows)
    context = {
        "mount": found,
        "looks": [look(each) for each in shown[:_PAGE]],
        "older": shown[_PAGE - 1].pk if len(shown) > _PAGE else None,
        **_crumbs(found, _("Fetch log")),
    }
    return render(request, "dashboard/federation/timeline.html", context)


@require_safe
def difference(request: HttpRequest, mount: int) -> HttpResponse:
    """What the newest document would change, and what each of its entries is stated and comes to here."""
    found = _found(request, mount)
    compared = load_differences(found)
    context: dict[str, Any] = {"mount": found, "compared": compared, **_crumbs(found, _("Differences"))}
    if compared is not None:
        cursor, start = _number(request, "cursor") or 0, _number(request, "from") or 0
        rows = list(compared.diff.rows(cursor, cursor + _PAGE)) if compared.diff else []
        stated, later = page_of(compared.stated, start, 2 * _PAGE)
        context |= {
            "lines": list(presenters.entry_lines(rows, policy_slug=found.policy.slug)),
            "n_rows": compared.diff.n_rows if compared.diff else 0,
            "next_cursor": cursor + _PAGE if compared.diff and compared.diff.n_rows > cursor + _PAGE else None,
            "before_title": _("active"),
            "after_title": _("Version %(n)s") % {"n": presentation.count(found.version)},
            "stated": stated_lines(compared, stated),
            "later": later,
            "start": start,
            "stated_verdict": stated_verdict(compared),
            "review_url": _review_url(found),
        }
    return render(request, "dashboard/federation/difference.html", context)


@require_POST
def act(request: HttpRequest, mount: int) -> HttpResponse:
    """Look now, pause, resume, freeze, thaw, other limits, another key, a new beginning, unmount; each is told why."""
    found = _found(request, mount)
    step = request.POST.get("step", "")
    if step not in _DEEDS:
        raise Invalid(_("Reload the page and try again."))
    made, deed, said = _DEEDS[step]
    form = made(request.POST)
    status = 422
    if form.is_valid():
        try:
            deed(request, found, form)
        except NotFound:
            raise
        except DomainError as error:
            form.add_refusal(error)
            status = 422 if isinstance(error, Invalid) else 403 if isinstance(error, NotAllowed) else 409
        else:
            messages.success(request, str(said()))
            return SeeOther(reverse("dashboard:federation") if step == "unmount" else page_url(mount))
    return _show(request, found, status=status, **{_FORM_OF.get(made, "deed"): form})


Deed = Callable[[HttpRequest, Mount, RemoteForm], object]


def _about(request: HttpRequest, found: Mount, form: RemoteForm) -> dict[str, Any]:
    return {
        "kind": "mount",
        "remote_id": found.pk,
        "reason": form.cleaned_data["reason"],
        "at": clock.now(),
        "actor": actor_of(request),
    }


def _settings(request: HttpRequest, found: Mount, form: RemoteForm) -> None:
    assert isinstance(form, LimitsForm)  # noqa: S101 - says so to the type checker
    control.change_settings(settings=form.settings(), **_about(request, found, form))


def _unmount(request: HttpRequest, found: Mount, form: RemoteForm) -> None:
    unmount(mount_id=found.pk, reason=form.cleaned_data["reason"], at=clock.now(), actor=actor_of(request))


_DEEDS: dict[str, tuple[type[RemoteForm], Deed, Callable[[], str]]] = {
    "fetch": (
        DeedForm,
        lambda *all: control.fetch_now(**_about(*all)),
        lambda: _("Fetching now; the result appears here in a moment."),
    ),
    "pause": (
        ReasonForm,
        lambda *all: control.pause(**_about(*all)),
        lambda: _("Saved"),
    ),
    "resume": (ReasonForm, lambda *all: control.resume(**_about(*all)), lambda: _("Saved")),
    "freeze": (
        ReasonForm,
        lambda *all: control.freeze(**_about(*all)),
        lambda: _("Frozen: it is fetched, but not applied."),
    ),
    "thaw": (ReasonForm, lambda *all: control.unfreeze(**_about(*all)), lambda: _("Saved")),
    "anew": (
        ReasonForm,
        lambda *all: control.reset_history(**_about(*all)),
        lambda: _("Saved"),
    ),
    "settings": (SettingsForm, _settings, lambda: _("Saved")),
    "trust": (
        TrustForm,
        lambda request, found, form: control.trust_key(
            fingerprint=form.cleaned_data["told"], **_about(request, found, form)
        ),
        lambda: _("Saved"),
    ),
    "unmount": (UnmountForm, _unmount, lambda: _("Unmounted: the entries below are yours, as they are now.")),
}
_FORM_OF: dict[type[RemoteForm], str] = {SettingsForm: "limits", TrustForm: "trust", UnmountForm: "leave"}


def _found(request: HttpRequest, mount: int) -> Mount:
    return get_mount(mount_id=mount, actor=actor_of(request), at=clock.now())


def _show(request: HttpRequest, found: Mount, *, status: int = 200, **forms: RemoteForm) -> HttpResponse:
    newest = list(Fetch.objects.filter(mount=found).order_by("-id")[: _NEWEST + 1])
    limits = forms.get("limits") or SettingsForm(initial=LimitsForm.initial_of(found))
    context = {
        **_now(request, found),
        "looks": [look(each) for each in newest[:_NEWEST]],
        "has_older": len(newest) > _NEWEST,
        "groups": federation_lines.groups(found.fingerprint),
        "deed": forms.get("deed") or DeedForm(),
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
        "standing": federation_lines.STANDINGS[condition],
        "title": title(found, at),
        "next_step": next_step(found, condition, at),
        "condition": condition,
        "entry_path": path,
        "entry_url": lines.entry_url(found.policy.slug, found.entry_uid, path.rpartition("/")[2]),
        "allowed": federation_lines.allowed_words(found.max_age_s),
        "effect": presentation.percent(effect),
        "n_below": 0 if i is None else int(tree.subtree_mask(i).sum()) - 1,
        "age": federation_lines.age_of_allowed(age_s, found.max_age_s),
        "meter": federation_lines.meter(age_s, found.max_age_s),
        "review_url": _review_url(found) if held else "",
        "held_words": held_words(found) if held else "",
        "is_at_work": _is_at_work(found),
        "is_asked": condition not in (Condition.PAUSED, Condition.BLOCKED),
    }


def _is_at_work(found: Mount) -> bool:
    return Run.objects.filter(kind="federation_fetch", subject=f"mount:{found.pk}", state__in=_AT_WORK).exists()


def _review_url(found: Mount) -> str:
    return reverse("dashboard:change", args=[found.held.pk]) if found.held is not None else ""


def _number(request: HttpRequest, name: str) -> int | None:
    text = request.GET.get(name, "")
    return read_whole(text, _MOST_DIGITS)


def _crumbs(found: Mount, last: str = "") -> dict[str, Any]:
    crumbs: list[dict[str, Any]] = [
        {"label": _("Federation"), "url": reverse("dashboard:federation")},
        {"label": str(found)},
    ]
    if last:
        crumbs[-1]["url"] = page_url(found.pk)
        crumbs.append({"label": last})
    return {"crumbs": crumbs}
