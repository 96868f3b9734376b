"""`manage.py scheduler`: connect, list, change, pause, check and remove schedulers."""

from __future__ import annotations

import argparse
import json
from typing import Any

from django.core.management.base import CommandError

from apps.accounts.actor import COMMAND
from apps.contrib.schedulers import services, share_orders
from apps.contrib.schedulers.api.shadow import FactorComparisonSerializer
from apps.contrib.schedulers.following import follow_scheduler
from apps.contrib.schedulers.going_back import lines_to_restore, where_seen
from apps.contrib.schedulers.models import KNOBS, Scheduler
from apps.contrib.schedulers.orders import LIMITS, SETTINGS, orders_of, tag_of
from apps.contrib.schedulers.selectors import (
    SchedulerView,
    get_scheduler,
    get_shadow,
    get_share_difference,
    list_schedulers,
)
from apps.contrib.schedulers.switch_on import SchedulerScope, switch_on
from apps.core.clock import now
from apps.core.operator_commands import BAD_INPUT, REFUSED, OperatorCommand, added_actions
from apps.web.rest.shapes import utc_text

_SHOWN = 20
_WHOLE = {"weight", "step", "every_s", *LIMITS}
_SWITCHES = {
    "pause": services.pause_scheduler,
    "resume": services.resume_scheduler,
    "reset-values": services.request_reset,
}


class Command(OperatorCommand):
    help = "Connects schedulers to policies, and manages the orders of their agents."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        what = parser.add_subparsers(dest="what", required=True, metavar="COMMAND")
        add = what.add_parser("add", help="connect a scheduler; its mode is off by default")
        add.add_argument("name", help="name of the scheduler")
        add.add_argument("--policy", required=True, help="slug of the policy")
        add.add_argument("--kind", required=True, choices=sorted(KNOBS))
        change = what.add_parser("set", help="change settings, such as mode=shadow weight=100000 partitions=a,b")
        change.add_argument("name")
        names = ", ".join((*SETTINGS[:-1], *LIMITS))
        change.add_argument("assignments", nargs="+", metavar="NAME=VALUE", help=names)
        add.add_argument("--set", action="append", default=[], dest="assignments", metavar="NAME=VALUE", help=names)
        for name, action in added_actions("scheduler").items():
            action.add_arguments(what.add_parser(name, help=action.help))
        listed = what.add_parser("list", help="list schedulers with the state of their agents")
        shown = what.add_parser("show", help="print settings, state and last pass of a scheduler")
        for each in (listed, shown):
            each.add_argument("--json", action="store_true", help="print JSON")
        for name, text in (
            ("pause", "stop sending; the scheduler keeps its last values"),
            ("resume", "resume sending"),
            ("reset-values", "have the agent reset all values that it has set"),
            ("check", "print findings of the agent in the scheduler's settings, with lines to change"),
        ):
            what.add_parser(name, help=text).add_argument("name")
        compared = what.add_parser("differences", help="compare the scheduler's factors with ours, with reasons")
        compared.add_argument("name")
        compared.add_argument("--json", action="store_true", help="print all differences as JSON")
        on = what.add_parser("switch-on", help="leave shadow mode for partitions, a subtree, or everything")
        on.add_argument("name")
        on.add_argument("--partition", action="append", default=[], dest="partitions", metavar="NAME")
        on.add_argument("--subtree", default="", metavar="PATH")
        on.add_argument("--all", action="store_true", dest="everything")
        on.add_argument("--reason", default="")
        shares = what.add_parser("shares", help="print differences from the policy's shares as commands")
        shares.add_argument("name")
        chosen = shares.add_mutually_exclusive_group()
        chosen.add_argument("--send", action="store_true", help="order the agent to set shares that the policy changed")
        chosen.add_argument("--put-back", action="store_true", help="order the agent to reset shares changed by hand")
        chosen.add_argument("--take-over", action="store_true", help="copy shares changed by hand into a draft")
        chosen.add_argument(
            "--follow", action="store_true", help="make a draft of Slurm's accounts and users, without its shares"
        )
        removed = what.add_parser("remove", help="disconnect a scheduler; use reset-values first")
        removed.add_argument("--reason", required=True)
        for each in (shown, removed):
            each.add_argument("name")

    def handle(self, *args: Any, **options: Any) -> None:
        what = options["what"]
        if what in _SWITCHES:
            scheduler = _SWITCHES[what](name=options["name"], at=now(), actor=COMMAND)
            self.stdout.write(f"{scheduler.name}: revision {scheduler.revision}")
            if what == "reset-values":
                self._say_lines(scheduler)
            return
        if what in (added := added_actions("scheduler")):
            added[what].run(options, self.stdout.write, self.stderr.write)
            return
        getattr(self, f"_{what.replace('-', '_')}")(options)

    def _say_lines(self, scheduler: Scheduler) -> None:
        """What only the scheduler's administrator can undo: the agent never writes its configuration."""
        lines = [line for line in lines_to_restore(scheduler) if not line.is_back or not line.is_known]
        if lines:
            self.stdout.write("Then write these lines of the scheduler's configuration again, and let it read them:")
        for line in lines:
            self.stdout.write(f"  {line.line}")
            self.stdout.write(f"    {where_seen(line)} {utc_text(line.seen_at)}")

    def _add(self, options: dict[str, Any]) -> None:
        settings = {"kind": options["kind"], **_settings(options["assignments"])}
        made = services.connect_scheduler(
            policy_slug=options["policy"], name=options["name"], settings=settings, at=now(), actor=COMMAND
        )
        self.stdout.write(f"{made.name} is connected to {made.policy.slug}, mode {made.mode}.")

    def _set(self, options: dict[str, Any]) -> None:
        view = _view(options)
        settings = _settings(options["assignments"])
        tag = tag_of(view.scheduler)
        made = services.change_scheduler(name=options["name"], tag=tag, settings=settings, at=now(), actor=COMMAND)
        self.stdout.write(f"{made.name}: revision {made.revision}")

    def _list(self, options: dict[str, Any]) -> None:
        schedulers = list_schedulers(at=now(), actor=COMMAND)
        if options["json"]:
            self.stdout.write(json.dumps([_described(view) for view in schedulers], ensure_ascii=False))
            return
        for view in schedulers:
            scheduler = view.scheduler
            names = f"{scheduler.name:<20}  {scheduler.kind:<10}  {scheduler.policy.slug:<16}"
            self.stdout.write(f"{names}  {scheduler.mode:<6}  {view.state}")

    def _show(self, options: dict[str, Any]) -> None:
        described = _described(_view(options))
        if options["json"]:
            self.stdout.write(json.dumps(described, ensure_ascii=False))
            return
        for name, value in described.items():
            self.stdout.write(f"{name:<18}{value if isinstance(value, str) else json.dumps(value)}")

    def _check(self, options: dict[str, Any]) -> None:
        scheduler = _view(options).scheduler
        if scheduler.checks is None:
            message = f"The agent of {scheduler.name} has not checked yet: run `fairshare-agent check` on its host."
            raise CommandError(message, returncode=REFUSED)
        for each in scheduler.checks:
            self.stdout.write(f"{each['severity']:<8} {each['code']}: {each['found']}")
            if each["remedy"]:
                self.stdout.write(f"{'':<9}{each['remedy']}")
        if any(each["severity"] == "error" for each in scheduler.checks):
            raise CommandError("Change the lines above first.", returncode=REFUSED)

    def _differences(self, options: dict[str, Any]) -> None:
        comparison = get_shadow(name=options["name"], at=now(), actor=COMMAND).comparison
        if comparison is None:
            raise CommandError("The agent has listed no values, or nothing is computed yet.", returncode=REFUSED)
        if options["json"]:
            self.stdout.write(json.dumps(FactorComparisonSerializer(comparison).data, ensure_ascii=False))
            return
        self.stdout.write(f"{comparison.n_equal} of {comparison.n_users} users are equal; scale: {comparison.scale}")
        for difference in comparison.ordered()[:_SHOWN]:
            if difference.reason != "none":
                numbers = f"{difference.ours:.6f} - {difference.theirs:.6f}: {difference.difference:+.6f}"
                self.stdout.write(f"  {difference.group}/{difference.user}: {numbers}: {difference.reason}")

    def _switch_on(self, options: dict[str, Any]) -> None:
        scope = SchedulerScope(options["partitions"], options["subtree"], options["everything"])
        arguments = {"name": options["name"], "tag": tag_of(_view(options).scheduler), "reason": options["reason"]}
        made = switch_on(scope, **arguments, at=now(), actor=COMMAND)
        where = ", ".join(made.partitions) if made.partitions else "all partitions"
        self.stdout.write(f"{made.name} is {made.mode}: {where}, {orders_of(made)['subtree']}")

    def _shares(self, options: dict[str, Any]) -> None:
        arguments: dict[str, Any] = {"name": options["name"], "at": now(), "actor": COMMAND}
        if options["follow"]:
            self._follow(arguments)
            return
        difference = get_share_difference(**arguments)
        if difference is None:
            raise CommandError(f"The agent of {options['name']} has listed no shares yet.", returncode=REFUSED)
        by_hand = [change.key for change in difference.by_hand]
        if options["take_over"]:
            draft = share_orders.take_over_shares(tag=difference.tag, keys=by_hand, **arguments)
            self.stdout.write(f"Change set {draft.pk} has {len(by_hand)} shares of {options['name']}.")
        elif options["send"] or options["put_back"]:
            put_back = by_hand if options["put_back"] else None
            order = share_orders.order_shares(tag=difference.tag, put_back=put_back, **arguments)
            self.stdout.write(f"Order {order.pk} has {len(order.lines)} lines: the agent sets them in its next pass.")
        else:
            for title, changes in (
                ("changed in the policy", difference.to_send),
                ("changed in the scheduler", difference.by_hand),
            ):
                for change in changes:
                    self.stdout.write(f"# {title}, {change.before} there\n{change.command}")
            self.stdout.write(
                f"# {len(difference.only_here)} only in the policy, {len(difference.only_there)} only there"
            )

    def _follow(self, arguments: dict[str, Any]) -> None:
        done = follow_scheduler(**arguments)
        if done.change_set is None:
            self.stdout.write("nothing to change: the policy has its accounts and users")
            return
        self.stdout.write(f"change set {done.change_set.pk}: {done.plan.in_words}")

    def _remove(self, options: dict[str, Any]) -> None:
        view = _view(options)
        tag = tag_of(view.scheduler)
        self._say_lines(view.scheduler)
        services.remove_scheduler(name=options["name"], tag=tag, reason=options["reason"], at=now(), actor=COMMAND)
        self.stdout.write(f"{options['name']} is removed.")
        if view.last is not None and view.state != "reset":
            self.stdout.write(
                "What its agent has set stays in the scheduler: `fairshare-agent reset-values` on its host resets it."
            )


def _view(options: dict[str, Any]) -> SchedulerView:
    return get_scheduler(name=options["name"], at=now(), actor=COMMAND)


def _described(view: SchedulerView) -> dict[str, Any]:
    last = view.last
    came = None if last is None else last.received_at.isoformat()
    return {**orders_of(view.scheduler), "state": view.state, "last_pass_at": came}


def _settings(words: list[str]) -> dict[str, Any]:
    """Settings from NAME=VALUE: integers, lists for partitions, limits under `limits`; an empty list is None."""
    settings: dict[str, Any] = {}
    for word in words:
        name, sign, text = word.partition("=")
        if not sign:
            raise CommandError(f"{word}: write NAME=VALUE", returncode=BAD_INPUT)
        value: Any = text
        if name in _WHOLE:
            value = int(text) if text.lstrip("-").isdigit() and text.isascii() else text
        elif name == "partitions":
            value = [partition.strip() for partition in text.split(",") if partition.strip()] or None
        elif name == "follows":
            value = {"true": True, "false": False}.get(text.lower(), text)
        if name in LIMITS:
            settings.setdefault("limits", {})[name] = value
        else:
            settings[name] = value
    return settings
