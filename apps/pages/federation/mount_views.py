"""Pages of one mount: its active version, fetch log, differences to the newest document, and actions."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from apps.core import clock
from apps.core.typed_numbers import read_whole
from apps.federation import control
from apps.federation.conditions import age_of, condition_of, is_held
from apps.federation.grid.peers import MountablePolicy
from apps.federation.models import Mount
from apps.federation.mounts.selectors import load_differences
from apps.federation.mounts.services import get_mount
from apps.pages.federation import presenters as federation_presenters
from apps.pages.federation.actions import SAVED, RemoteAction, common_actions, crumbs_of, run_action, shared_context
from apps.pages.federation.fetch_log import show_log
from apps.pages.federation.forms import MountSettingsForm, TrustForm, UnmountForm
from apps.pages.federation.mount_presenters import next_step, stated_lines, stated_verdict, title
from apps.policies.tree.stored import load_tree
from apps.priorities.sentences import numbers
from apps.runs.models import Run
from apps.web.changes.entry_changes import entry_lines
from apps.web.shell import lines
from apps.web.shell.forms import RefusableForm
from apps.web.shell.requests import actor_of, fragment
from apps.web.texts import conditions

_PAGE = 50  # rows of each list of differences
_AT_WORK = (Run.State.QUEUED, Run.State.RUNNING)
_MOST_REVISION_DIGITS = 12
_ACTIONS = {
    **common_actions(when_fetching=SAVED, after_reset=SAVED),
    "settings": RemoteAction(
        MountSettingsForm, control.change_settings, arguments=lambda form: {"settings": form.settings()}
    ),
    "unmount": RemoteAction(
        UnmountForm, control.remove, gettext_lazy("Unmounted: the entries below are yours, as they are now.")
    ),
}
_FORM_OF: dict[type[RefusableForm], str] = {MountSettingsForm: "limits", TrustForm: "trust", UnmountForm: "leave"}


def page_url(mount: int, **_kwargs: Any) -> str:
    return reverse("pages:federation-mount", args=[mount])


@require_safe
def mount(request: HttpRequest, mount: int) -> HttpResponse:
    return _show(request, _load(request, mount))


@require_safe
@fragment(page_url)
def now(request: HttpRequest, mount: int) -> HttpResponse:
    """Fragment with the state of the mount, which is polled; the rest of the page stays."""
    return render(request, "pages/federation/_now.html", _now(request, _load(request, mount)))


@require_safe
def timeline(request: HttpRequest, mount: int) -> HttpResponse:
    """Fetch log, newest first; `?before=` continues it."""
    row = _load(request, mount)
    return show_log(request, row, name=row.issuer, page_url=page_url(mount))


@require_safe
def difference(request: HttpRequest, mount: int) -> HttpResponse:
    """Changes that the newest document would make, and the shares of its entries there and here."""
    row = _load(request, mount)
    compared = load_differences(row)
    crumbs = [*crumbs_of(str(row)), {"label": _("Differences")}]
    crumbs[1]["url"] = page_url(mount)
    context: dict[str, Any] = {"mount": row, "compared": compared, "crumbs": crumbs}
    context["headline"] = title(row, clock.now()) if compared is None else stated_verdict(compared)
    if compared is not None:
        cursor, start = _number(request, "cursor") or 0, _number(request, "from") or 0
        rows = list(compared.diff.rows(cursor, cursor + _PAGE)) if compared.diff else []
        end = start + 2 * _PAGE
        context |= {
            "lines": list(entry_lines(rows, policy_slug=row.policy.slug)),
            "n_rows": compared.diff.n_entries if compared.diff else 0,
            "next_cursor": cursor + _PAGE if compared.diff and compared.diff.n_entries > cursor + _PAGE else None,
            "before_title": _("Active"),
            "after_title": _("Version %(n)s") % {"n": numbers.count(row.version)},
            "stated": stated_lines(compared, compared.stated[start:end]),
            "later": end if len(compared.stated) > end else None,
            "start": start,
            "review_url": _review_url(row),
        }
    return render(request, "pages/federation/difference.html", context)


@require_POST
def act(request: HttpRequest, mount: int) -> HttpResponse:
    """Run an action on a mount: fetch, pause, resume, freeze, unfreeze, settings, trust, reset or unmount."""
    row = _load(request, mount)

    def show_refused(form: RefusableForm, status: int) -> HttpResponse:
        return _show(request, row, status=status, **{_FORM_OF.get(type(form), "action_form"): form})

    return run_action(request, "mount", mount, _ACTIONS, page_url=page_url(mount), show_refused=show_refused)


def _load(request: HttpRequest, mount: int) -> Mount:
    return get_mount(mount_id=mount, actor=actor_of(request), at=clock.now())


def _show(request: HttpRequest, row: Mount, *, status: int = 200, **forms: RefusableForm) -> HttpResponse:
    context = {
        **_now(request, row),
        **shared_context(row, forms),
        "act_url": reverse("pages:federation-mount-act", args=[row.pk]),
        "limits": forms.get("limits") or MountSettingsForm(initial=MountSettingsForm.initial_of(row)),
        "leave": forms.get("leave") or UnmountForm(),
        "is_changing": "limits" in forms,
        "is_leaving": "leave" in forms,
        "has_token": bool(row.sealed_token),
        "crumbs": crumbs_of(str(row)),
    }
    return render(request, "pages/federation/mount.html", context, status=status)


def _now(request: HttpRequest, row: Mount) -> dict[str, Any]:
    at = clock.now()
    held = is_held(row)
    condition = condition_of(row, is_held=held, at=at)
    path, effect = MountablePolicy(row.policy, at, actor_of(request)).where(row.entry_uid)
    age_s = age_of(row, at)
    tree = load_tree(row.policy)
    i = tree.index_of_uid(row.entry_uid)
    return {
        "mount": row,
        "standing": conditions.STANDINGS[condition],
        "title": title(row, at),
        "next_step": next_step(row, condition, at),
        "condition": condition,
        "entry_path": path,
        "entry_url": lines.entry_url(row.policy.slug, row.entry_uid, path.rpartition("/")[2]),
        "allowed": federation_presenters.allowed_text(row.max_age_s),
        "effect": numbers.percent(effect),
        "n_below": 0 if i is None else int(tree.subtree_mask(i).sum()) - 1,
        "age": federation_presenters.age_of_allowed(age_s, row.max_age_s),
        "meter": federation_presenters.meter(age_s, row.max_age_s),
        "review_url": _review_url(row) if held else "",
        "held_text": _("A newer version exceeds the limits.") if held else "",
        "is_at_work": Run.objects.filter(
            kind="federation_fetch", subject=f"mount:{row.pk}", state__in=_AT_WORK
        ).exists(),
    }


def _review_url(row: Mount) -> str:
    return reverse("pages:change", args=[row.held.pk]) if row.held is not None else ""


def _number(request: HttpRequest, name: str) -> int | None:
    return read_whole(request.GET.get(name, ""), _MOST_REVISION_DIGITS)
