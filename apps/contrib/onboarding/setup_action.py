"""`manage.py scheduler setup`: set up shadow mode for a Slurm site."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from apps.accounts.actor import COMMAND
from apps.contrib.onboarding.api import SshareComparisonSerializer
from apps.contrib.onboarding.first_policy_draft import (
    LogFile,
    confirm_log,
    read_tree,
    read_tree_here,
    send_log,
    send_log_here,
    use_source,
)
from apps.contrib.onboarding.models import FirstPolicyDraft
from apps.contrib.onboarding.shadow_setup import FirstPolicy, publish_first_policy
from apps.contrib.onboarding.sshare_comparison import SshareComparison, compare_with_sshare
from apps.contrib.onboarding.usage_reasons import USAGE_REASONS
from apps.core.clock import now
from apps.core.errors import FieldProblem, Invalid
from apps.core.operator_commands import REFUSED, CommandAction, Write
from apps.runs.models import Run
from apps.runs.services import work_run_now
from apps.usage.models import Import
from apps.usage.parsers.registry import AUTO

_SHOWN = 20


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", help="name of the scheduler, of its policy, and of its usage source (unless --source is given)"
    )
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--here", action="store_true", help="run the commands in FAIRSHARE_COLLECT_COMMANDS on this host")
    how.add_argument(
        "--outputs",
        metavar="FILE",
        help="file with outputs of sacctmgr dump, scontrol show config, scontrol show partition, sacctmgr show qos and "
        "sshare",
    )
    parser.add_argument(
        "--sacct", metavar="FILE", help="accounting log; without it, the source must already have usage"
    )
    parser.add_argument("--source", default="", help="slug of the usage source")
    parser.add_argument("--time-zone", default="", help="time zone of local times in the log")
    parser.add_argument("--publish", action="store_true", help="publish the policy, and connect its scheduler")
    parser.add_argument(
        "--collect",
        action="store_true",
        help="with --publish: go on collecting with sacct on this host, into the same usage source",
    )
    parser.add_argument("--reason", default="", help="reason for the audit log; required with --publish")
    parser.add_argument("--json", action="store_true", help="print the comparison with sshare as JSON")


def _set_up(options: Mapping[str, Any], write: Write, note: Write) -> None:
    """Set up shadow mode. Without --publish, the set-up stays open and can be continued on the page /setup/."""
    if options["publish"] and not options["reason"].strip():
        raise Invalid("--publish needs --reason.", fields=[FieldProblem("--reason", "is missing")])
    begun = _begin(options)
    for line in (begun.facts.get("slurm_config") or {}).get("lines", []):
        note(f"{' ' if line['is_carried'] else '!'} {line['name']}={line['value']}: {line['meaning']}")
    begun = _with_log(begun, options)
    comparison = compare_with_sshare(begun, at=now(), actor=COMMAND)
    if options["json"]:
        write(
            json.dumps(None if comparison is None else SshareComparisonSerializer(comparison).data, ensure_ascii=False)
        )
    else:
        _print(comparison, write)
    if not options["publish"]:
        note("Nothing is published: add --publish --reason TEXT, or continue on the page /setup/.")
        if begun.source is not None:
            slug = begun.source.slug
            note(f"The log is kept in the usage source {slug}. It counts nowhere before a policy maps its accounts.")
        return
    name = options["name"]
    wanted = FirstPolicy(slug=name, name=name, reason=options["reason"], scheduler=name, collects=options["collect"])
    made = publish_first_policy(version=begun.version, wanted=wanted, at=now(), actor=COMMAND)
    note(f"{made.policy.slug} is published, and its scheduler is in shadow mode.")


def _begin(options: Mapping[str, Any]) -> FirstPolicyDraft:
    if options["here"]:
        return read_tree_here(at=now(), actor=COMMAND)
    content = _content(options["outputs"])
    return read_tree(content=content, file_name=options["outputs"], format=AUTO, at=now(), actor=COMMAND)


def _with_log(begun: FirstPolicyDraft, options: Mapping[str, Any]) -> FirstPolicyDraft:
    slug = options["source"] or options["name"]
    arguments: dict[str, Any] = {"version": begun.version, "at": now(), "actor": COMMAND}
    if options["sacct"]:
        try:
            with open(options["sacct"], "rb") as file:
                log = LogFile(file, Path(options["sacct"]).name, AUTO, slug, options["time_zone"])
                sent = send_log(log, **arguments)
        except OSError as error:
            raise _unreadable(options["sacct"], error) from error
    elif options["here"] and not options["source"]:
        sent = send_log_here(source_slug=slug, **arguments)
    else:
        return use_source(source_slug=slug, **arguments)
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


def _print(comparison: SshareComparison | None, write: Write) -> None:
    if comparison is None:
        write("The outputs have no sshare, so nothing is compared.")
        return
    factors, usage = comparison.factors, comparison.usage
    write(f"{factors.n_equal} of {len(factors.differences)} users have sshare's number; largest {factors.largest:.6f}")
    for difference in factors.ordered()[:_SHOWN]:
        if difference.reason != "none":
            numbers = f"{difference.ours:.6f} - {difference.theirs:.6f} = {difference.difference:+.6f}"
            write(f"  {difference.group}/{difference.user}: {numbers}: {difference.reason}")
    write(f"usage in {comparison.unit}: {usage.ours:,.0f} from the log, {usage.theirs:,.0f} in sshare")
    for row in usage.rows[:_SHOWN]:
        if row.reason != "same":
            write(f"  {row.group}/{row.user}: {row.difference:+,.0f}: {USAGE_REASONS[row.reason]}")


SETUP = CommandAction(
    help="set up shadow mode for a Slurm site: policy, usage and scheduler at once",
    add_arguments=_add_arguments,
    run=_set_up,
)
