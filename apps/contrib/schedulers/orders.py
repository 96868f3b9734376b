"""Orders for the agent of a scheduler: validate its settings, and convert them to the REST representation."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from django.utils.translation import gettext as _

from apps.accounts.entry_accounts import refuse_reserved
from apps.contrib.schedulers.models import KNOBS, MOST_FACTOR_WEIGHT, Scheduler, ShareOrder
from apps.core.errors import FieldProblem, Invalid
from apps.policies.models import Policy
from apps.policies.tree.stored import load_tree

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")  # of a partition or queue, used as an argument of a command
MOST_JOB_PARTITIONS = 200
LIMITS = {
    "snapshot_age_s": (60, 86_400),
    "unmapped_percent": (0, 100),
    "changed_percent": (1, 100),
    "calls_per_s": (1, 1_000),
    "updates_per_min": (10, 1_000_000),
}
_NUMBERS = {"weight": (1, MOST_FACTOR_WEIGHT), "step": (1, MOST_FACTOR_WEIGHT), "every_s": (5, 3_600)}
_CHOICES = {
    "kind": Scheduler.Kind,
    "reach": Scheduler.Reach,
    "mode": Scheduler.Mode,
    "carries": Scheduler.Carries,
}
SETTINGS = (
    *("kind", "reach", "namespace", "partitions", "subtree", "knob", "weight", "step", "mode", "canary_partition"),
    *("every_s", "carries", "follows", "limits"),
)


def orders_of(scheduler: Scheduler) -> dict[str, Any]:
    """Settings and switches as in the contract with the agent; `subtree` is its current path."""
    return {
        "name": scheduler.name,
        "policy": scheduler.policy.slug,
        "kind": scheduler.kind,
        "reach": scheduler.reach,
        "namespace": scheduler.namespace or None,
        "partitions": scheduler.partitions,
        "subtree": subtree_path(scheduler),
        "knob": scheduler.knob,
        "weight": scheduler.weight,
        "step": scheduler.step,
        "mode": scheduler.mode,
        "carries": scheduler.carries,
        "canary_partition": scheduler.canary_partition or None,
        "every_s": scheduler.every_s,
        "limits": {name: getattr(scheduler, name) for name in LIMITS},
        "follows": scheduler.follows,
        "paused": scheduler.is_paused,
        "reset_values": scheduler.is_reset_requested,
        "lists_priorities": True,
        "takes_queue_state": True,
        "resumes": scheduler.resumes,
        "revision": scheduler.revision,
    }


def share_order_of(scheduler: Scheduler) -> tuple[dict[str, Any] | None, str]:
    """The remaining lines of the open share order, and their part of the version tag of orders."""
    order = _share_order(scheduler)
    return order, "" if order is None else f"-{order['id']}.{len(order['lines'])}"


def _share_order(scheduler: Scheduler) -> dict[str, Any] | None:
    share_order = ShareOrder.objects.filter(scheduler=scheduler, state=ShareOrder.State.OPEN).first()
    if share_order is None or scheduler.carries != Scheduler.Carries.SHARES:
        return None
    names = ("group", "user", "before", "after", "agreed")
    lines = [
        {"line": i, **{name: line.get(name, "") for name in names}}
        for i, line in enumerate(share_order.lines)
        if not line["outcome"]
    ]
    return {"id": share_order.pk, "cluster": share_order.cluster, "lines": lines}


def subtree_path(scheduler: Scheduler) -> str:
    """Current path of the scheduler's subtree.

    For a removed entry, its last path: nothing is below it, so that nothing is sent rather than everything.
    """
    if scheduler.subtree_uid is None:
        return "/"
    tree = load_tree(scheduler.policy)
    i = tree.index_of_uid(scheduler.subtree_uid)
    return scheduler.subtree_path if i is None else tree.path(i)


def tag_of(scheduler: Scheduler) -> str:
    """Version tag: the revision, and a hash if the subtree was moved since."""
    path = subtree_path(scheduler)
    moved = "" if path == scheduler.subtree_path else f"-{sha256(path.encode()).hexdigest()[:8]}"
    return f"{scheduler.revision}{moved}"


def apply(scheduler: Scheduler, settings: Mapping[str, Any]) -> None:
    """Validate all settings, report all problems, and set them on the unsaved row.

    Raises:
        Invalid: `bad_scheduler`, with the problem of each field.
    """
    problems: list[FieldProblem] = []
    checked: dict[str, Any] = {}
    for name, value in settings.items():
        try:
            checked |= _checked(name, value, scheduler.policy)
        except Invalid as refusal:
            problems += refusal.fields
    if not problems:
        if checked.get("kind", scheduler.kind) != scheduler.kind and "knob" not in checked:
            checked["knob"] = KNOBS[checked["kind"]][0]
        for name, value in checked.items():
            setattr(scheduler, name, value)
        problems = list(_conflicts(scheduler))
    if problems:
        raise Invalid(_("The settings of the scheduler are invalid."), code="bad_scheduler", fields=problems)


def _checked(name: str, value: Any, policy: Policy) -> dict[str, Any]:
    """Columns and values of one validated setting."""
    if name in _CHOICES:
        return {name: _one_of(name, value, _CHOICES[name].values)}
    if name in _NUMBERS:
        return {name: _whole(name, value, *_NUMBERS[name])}
    check = _OTHERS.get(name)
    if check is None:
        raise _wrong(name[:60], _("There is: %(names)s.") % {"names": ", ".join(SETTINGS)})
    return check(value, policy)


def _knob(value: Any, _policy: Policy) -> dict[str, Any]:
    return {"knob": _one_of("knob", value, sorted({knob for knobs in KNOBS.values() for knob in knobs}))}


def _namespace(value: Any, _policy: Policy) -> dict[str, Any]:
    text = "" if value is None else value
    if not isinstance(text, str) or len(text) > 128 or not text.isprintable():
        raise _wrong("namespace", _("Write at most 128 printable characters, or nothing."))
    refuse_reserved(text)
    return {"namespace": text.strip()}


def _partitions(value: Any, _policy: Policy) -> dict[str, Any]:
    if value is None:
        return {"partitions": None}
    if not isinstance(value, list) or not 0 < len(value) <= MOST_JOB_PARTITIONS:
        raise _wrong("partitions", _("Write 1 to %(n)d names, or nothing for all.") % {"n": MOST_JOB_PARTITIONS})
    return {"partitions": list(dict.fromkeys(_name("partitions", partition) for partition in value))}


def _canary(value: Any, _policy: Policy) -> dict[str, Any]:
    return {"canary_partition": "" if value in (None, "") else _name("canary_partition", value)}


def _subtree(value: Any, policy: Policy) -> dict[str, Any]:
    tree = load_tree(policy)
    i = tree.index_of_path(value) if isinstance(value, str) else None
    if i is None:
        raise _wrong("subtree", _("Not found, or not visible to you."))
    return {"subtree_uid": tree.uuid(i) if i else None, "subtree_path": tree.path(i)}


def _follows(value: Any, _policy: Policy) -> dict[str, Any]:
    if type(value) is not bool:
        raise _wrong("follows", _("True or false."))
    return {"follows": value}


def _limits(value: Any, _policy: Policy) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise _wrong("limits", _("Write an object with: %(names)s.") % {"names": ", ".join(LIMITS)})
    unknown = sorted(set(value) - set(LIMITS))
    if unknown:
        raise _wrong(f"limits.{unknown[0][:40]}", _("There is: %(names)s.") % {"names": ", ".join(LIMITS)})
    return {name: _whole(f"limits.{name}", number, *LIMITS[name]) for name, number in value.items()}


_OTHERS: dict[str, Callable[[Any, Policy], dict[str, Any]]] = {
    "knob": _knob,
    "namespace": _namespace,
    "partitions": _partitions,
    "canary_partition": _canary,
    "subtree": _subtree,
    "limits": _limits,
    "follows": _follows,
}


def _conflicts(scheduler: Scheduler) -> list[FieldProblem]:
    """Problems of combinations of valid settings; the database has the same rules as constraints."""
    problems = []
    if scheduler.knob not in KNOBS[scheduler.kind]:
        known = ", ".join(KNOBS[scheduler.kind])
        problems.append(FieldProblem("knob", _("There is: %(names)s.") % {"kind": scheduler.kind, "names": known}))
    if scheduler.carries == Scheduler.Carries.SHARES and scheduler.mode == Scheduler.Mode.CANARY:
        problems.append(FieldProblem("mode", _("Shares have no canary: choose another mode.")))
    if scheduler.carries == Scheduler.Carries.SHARES and scheduler.kind == Scheduler.Kind.HTCONDOR:
        problems.append(FieldProblem("carries", _("HTCondor has no shares: send job priorities.")))
    if scheduler.step > scheduler.weight:
        problems.append(FieldProblem("step", _("The step is larger than the weight: nothing would ever be sent.")))
    if scheduler.follows and scheduler.kind != Scheduler.Kind.SLURM:
        problems.append(FieldProblem("follows", _("Only accounts and users of Slurm are followed.")))
    of_limits = scheduler.carries == Scheduler.Carries.LIMITS
    if of_limits and scheduler.kind != Scheduler.Kind.SLURM:
        problems.append(FieldProblem("carries", _("Only Slurm has limits of accounts.")))
    canary = scheduler.canary_partition
    if scheduler.mode == Scheduler.Mode.CANARY and not canary and not of_limits:
        problems.append(FieldProblem("canary_partition", _("Canary mode needs a partition.")))
    if canary and scheduler.partitions is not None and canary not in scheduler.partitions:
        problems.append(FieldProblem("canary_partition", _("It has to be one of the partitions.")))
    return problems


def _one_of(where: str, value: Any, known: list[str]) -> str:
    if value not in known:
        raise _wrong(where, _("There is: %(names)s.") % {"names": ", ".join(known)})
    return str(value)


def _whole(where: str, value: Any, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise _wrong(where, _("A whole number from %(least)d to %(most)d.") % {"least": least, "most": most})
    return value


def _name(where: str, value: Any) -> str:
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise _wrong(where, _("A name has letters, digits, dots, hyphens and underscores."))
    return value


def _wrong(where: str, message: str) -> Invalid:
    return Invalid(f"{where}: {message}", fields=[FieldProblem(where, message)])
