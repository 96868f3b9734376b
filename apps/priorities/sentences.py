"""What a level of the walk says in words: a stable key, the numbers, and the rendered sentence."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.utils import formats, timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext


def percent(fraction: float) -> str:
    """33.6 %, with a no-break space."""
    return f"{formats.number_format(round(fraction * 100, 1), 1, force_grouping=True)}\u00a0%"


def level_sentence(key: str, numbers: dict[str, Any]) -> str:
    """The English of one level; `key` is the state of the entry, or `dissolved`."""
    words = {
        "name": numbers["name"],
        "parent": numbers["parent"],
        "target": percent(numbers["target"] or 0.0),
        "actual": percent(numbers["actual"] or 0.0),
        "points": formats.number_format(round(abs(numbers["deviation_points"] or 0.0), 1), 1),
    }
    texts = {
        "over": _("%(name)s is entitled to %(target)s of %(parent)s and used %(actual)s: over by %(points)s points."),
        "under": _("%(name)s is entitled to %(target)s of %(parent)s and used %(actual)s: under by %(points)s points."),
        "on": _("%(name)s is entitled to %(target)s of %(parent)s and used %(actual)s: on target."),
        "idle": _("%(name)s is entitled to %(target)s of %(parent)s; nothing of it was used or asked for."),
        "unknown": _("%(name)s has no numbers of its own yet."),
        "dissolved": _("%(name)s has no shares of its own: it is compared as part of %(parent)s."),
    }
    sentence = texts[key] % words
    if numbers["n_siblings"] and key not in ("unknown", "dissolved"):
        sentence += " " + ahead_sentence(numbers["n_ahead"], numbers["n_siblings"])
    return sentence


def adjustment_sentence(resource: str, amount_s: float, at: datetime, note: str) -> str:
    """A correction of usage: "Includes −120 core-hours given back on 18 Nov 2026: node failure."."""
    hours = formats.number_format(round(abs(amount_s) / 3600, 1), 1 if amount_s % 3600 else 0, force_grouping=True)
    words = {
        "amount": f"−{hours}" if amount_s < 0 else f"+{hours}", "unit": unit_of(resource),
        "day": formats.date_format(timezone.localtime(at), "j M Y"),
    }  # fmt: skip
    if amount_s < 0:
        sentence = _("Includes %(amount)s %(unit)s given back on %(day)s") % words
    else:
        sentence = _("Includes %(amount)s %(unit)s added on %(day)s") % words
    return f"{sentence}: {note}." if note else f"{sentence}."


def unit_of(resource: str) -> str:
    """What an hour of a resource is called."""
    units = {
        "cpu_s": _("core-hours"), "gpu_s": _("GPU-hours"), "mem_gb_s": _("GB-hours"), "node_s": _("node-hours"),
        "billing": _("billing-hours"),
    }  # fmt: skip
    return units.get(resource, resource)


def ahead_sentence(n_ahead: int, n_siblings: int) -> str:
    if n_ahead == 0:
        return _("Nobody beside it is ahead.")
    one, many = "%(ahead)d of %(all)d beside it is ahead.", "%(ahead)d of %(all)d beside it are ahead."
    return ngettext(one, many, n_ahead) % {"ahead": n_ahead, "all": n_siblings}


def rank_sentence(rank: int | None, of: int, deciding: str | None, *, why_unranked: str = "") -> str:
    """The verdict: rank, and the level that decides it."""
    if rank is None:
        return why_unranked or _("It has no rank yet.")
    place = _("Rank %(rank)d of %(of)d.") % {"rank": rank, "of": of}
    if deciding is None:
        return place
    return place + " " + _("The level that decides it: %(name)s.") % {"name": deciding}


def unranked_sentence(key: str, *, name: str, kind: str, algorithm: str, has_factor: bool) -> str:
    """Why an entry has no rank, and what schedulers get for it; `key` is from `walk.why_unranked`."""
    texts = {
        "reserve": _("%(name)s is a reserve: nobody runs there, so it has no rank."),
        "group": _("%(algorithm)s ranks leaves alone, and %(name)s has entries below it."),
        "empty": _("%(name)s is a group without members, so there is nobody to rank."),
        "not_user": _("%(algorithm)s ranks entries of kind user alone, and %(name)s is of kind %(kind)s."),
        "later": _("Its place among all others is being worked out; ask again in a moment."),
    }
    sentence = texts[key] % {"name": name, "kind": kind, "algorithm": algorithm}
    if has_factor:
        return sentence
    return sentence + " " + _("Schedulers get the fallback factor of the policy.")
