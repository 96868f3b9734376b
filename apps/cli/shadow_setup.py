"""`manage.py scheduler setup`: a Slurm site from its own outputs, or commands of this host, to shadow mode."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from apps.accounts.actor import COMMAND
from apps.cli.commands import REFUSED
from apps.core.clock import now
from apps.core.errors import FieldProblem, Invalid
from apps.onboarding.first_policy_draft import (
    confirm_log,
    read_tree,
    read_tree_here,
    send_log,
    send_log_here,
    take_source,
)
from apps.onboarding.models import Beginning
from apps.onboarding.shadow_setup import publish_set_up
from apps.onboarding.sshare_comparison import SshareComparison, compare_with_sshare
from apps.runs.models import Run
from apps.runs.services import work_run_now
from apps.usage.models import Import
from apps.usage.parsers.registry import AUTO

_SHOWN = 20
Write = Callable[[str], Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="of the scheduler, its policy, and its usage source (else --source)")
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--here", action="store_true", help="by the commands of FAIRSHARE_COLLECT_COMMANDS on this host")
    how.add_argument(
        "--outputs", metavar="FILE", help="outputs of sacctmgr dump, scontrol show config and partition, and sshare"
    )
    parser.add_argument("--sacct", metavar="FILE", help="the accounting log; without it the source has usage already")
    parser.add_argument("--source", default="", help="slug of the usage source")
    parser.add_argument("--time-zone", default="", help="of times without one in the log")
    parser.add_argument("--publish", action="store_true", help="publish the policy, and connect its scheduler")
    parser.add_argument("--reason", default="", help="why; needed with --publish")
    parser.add_argument("--json", action="store_true", help="the comparison with sshare as JSON")


def set_up(options: dict[str, Any], write: Write, note: Write) -> None:
    """Without --publish the set-up stays open, on the page /setup/ too."""
    if options["publish"] and not options["reason"].strip():
        raise Invalid("--publish needs --reason.", fields=[FieldProblem("--reason", "is missing")])
    begun = _begin(options)
    for line in (begun.facts.get("slurm_config") or {}).get("lines", []):
        note(f"{' ' if line['is_carried'] else '!'} {line['name']}={line['value']}: {line['meaning']}")
    begun = _with_log(begun, options)
    found = compare_with_sshare(begun, at=now(), actor=COMMAND)
    if options["json"]:
        write(json.dumps(None if found is None else found.to_json(), ensure_ascii=False))
    else:
        _print(found, write)
    if not options["publish"]:
        note("Nothing is published: add --publish --reason TEXT, or continue on the page /setup/.")
        return
    made = publish_set_up(
        version=begun.version,
        slug=options["name"],
        name=options["name"],
        settings={},
        scheduler=options["name"],
        reason=options["reason"],
        at=now(),
        actor=COMMAND,
    )
    note(f"{made.policy.slug} is published, and its scheduler is in shadow mode.")


def _begin(options: dict[str, Any]) -> Beginning:
    if options["here"]:
        return read_tree_here(at=now(), actor=COMMAND)
    content = _content(options["outputs"])
    return read_tree(content=content, file_name=options["outputs"], format=AUTO, at=now(), actor=COMMAND)


def _with_log(begun: Beginning, options: dict[str, Any]) -> Beginning:
    slug = options["source"] or options["name"]
    given: dict[str, Any] = {"version": begun.version, "source_slug": slug, "at": now(), "actor": COMMAND}
    if options["sacct"]:
        zone = {"time_zone": options["time_zone"], "format": AUTO, "file_name": Path(options["sacct"]).name}
        try:
            with open(options["sacct"], "rb") as file:
                sent = send_log(**given, **zone, file=file)
        except OSError as error:
            raise _unreadable(options["sacct"], error) from error
    elif options["here"] and not options["source"]:
        sent = send_log_here(**given)
    else:
        return take_source(**given)
    _work(sent.dry_run)
    confirmed = confirm_log(version=sent.version, at=now(), actor=COMMAND)
    _work(confirmed.usage_import)
    return confirmed


def _work(done: Import | None) -> None:
    if done is None:
        return
    run = work_run_now(done.run_id)
    if run.state != Run.State.SUCCEEDED:
        raise CommandError(f"The log was not read: {run.error or run.message}", returncode=REFUSED)


def _content(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise _unreadable(name, error) from error


def _unreadable(name: str, error: OSError) -> Invalid:
    return Invalid(f"{name}: {error.strerror}.", fields=[FieldProblem(name[:200], "can't be read")])


# --- Beside sshare ----------------------------------------------------------------------------------------------------
def _print(found: SshareComparison | None, write: Write) -> None:
    if found is None:
        write("The outputs have no sshare, so nothing is compared.")
        return
    factors, usage = found.factors, found.usage
    write(f"{factors.n_equal} of {len(factors.differences)} users have sshare's number; largest {factors.largest:.6f}")
    for one in factors.ordered()[:_SHOWN]:
        if one.reason != "none":
            write(f"  {one.group}/{one.user}: {one.ours:.6f} - {one.theirs:.6f} = {one.difference:+.6f}: {one.reason}")
    write(f"usage in {found.unit}: {usage.ours:,.0f} from the log, {usage.theirs:,.0f} in sshare")
    for row in usage.rows[:_SHOWN]:
        if row.reason != "same":
            write(f"  {row.pair.group}/{row.pair.user}: {row.difference:+,.0f}: {row.reason}")
