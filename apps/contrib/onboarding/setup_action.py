"""`manage.py scheduler setup`: set up shadow mode for a Slurm site."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from agent import site_commands
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
from apps.contrib.onboarding.rest_site import RestSite, begin_by_rest
from apps.contrib.onboarding.shadow_setup import FirstPolicy, publish_first_policy
from apps.contrib.onboarding.sshare_comparison import SshareComparison, compare_with_sshare
from apps.contrib.onboarding.usage_reasons import reason_text
from apps.core.clock import now
from apps.core.errors import FieldProblem, Invalid
from apps.core.operator_commands import REFUSED, CommandAction, Write
from apps.policies.models import Policy
from apps.runs.models import Run
from apps.runs.services import work_run_now
from apps.usage.models import Import
from apps.usage.parsers.registry import AUTO
from apps.usage.sources.services import collect_now

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
        help=f"file with outputs of {site_commands.listed()}",
    )
    how.add_argument(
        "--slurmrestd",
        metavar="ADDRESS",
        help="address of slurmrestd, such as https://slurm.example.org:6820; its token is in FAIRSHARE_SECRETS_DIR, in "
        "the file with the name of the usage source",
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
        help="with --publish: go on collecting with sacct on this host, into the same usage source; a policy that is "
        "there already is left as it is",
    )
    parser.add_argument("--reason", default="", help="reason for the audit log; required with --publish")
    parser.add_argument("--json", action="store_true", help="print the comparison with sshare as JSON")


def _set_up(options: Mapping[str, Any], write: Write, note: Write) -> None:
    """Set up shadow mode. Without --publish, the set-up stays open and can be continued on the page /setup/."""
    if options["publish"] and not options["reason"].strip():
        raise Invalid("--publish needs --reason.", fields=[FieldProblem("--reason", "is missing")])
    begun = _begin(options, note)
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
    name, collects = options["name"], options["collect"]
    wanted = FirstPolicy(
        slug=name, name=name, reason=options["reason"], scheduler=name, collects=collects, into_existing=collects
    )
    is_there = collects and Policy.objects.filter(slug=name).exists()
    made = publish_first_policy(version=begun.version, wanted=wanted, at=now(), actor=COMMAND)
    if is_there:
        note(f"The policy {made.policy.slug} was there already and is left as it is: import_policy changes it.")
    else:
        note(f"{made.policy.slug} is published.")
    if made.scheduler is not None:
        note(f"Its scheduler {made.scheduler.name} is in mode {made.scheduler.mode}.")
    if collects and begun.source is not None:
        note(f"Records are collected with sacct on this host into the usage source {begun.source.slug}.")


def _begin(options: Mapping[str, Any], note: Write) -> FirstPolicyDraft:
    if options["slurmrestd"]:
        site = RestSite(options["slurmrestd"], options["source"] or options["name"])
        begun = begin_by_rest(site, at=now(), actor=COMMAND)
        if not begun.has_config:
            note("! This slurmrestd doesn't show its configuration, as that of Slurm 26.05 does: the settings are")
            note("  usual ones. Without it, add the outputs of scontrol show config on the page /setup/.")
        return begun.draft
    if options["here"]:
        return read_tree_here(at=now(), actor=COMMAND)
    content = _content(options["outputs"])
    return read_tree(content=content, file_name=options["outputs"], format=AUTO, at=now(), actor=COMMAND)


def _with_log(begun: FirstPolicyDraft, options: Mapping[str, Any]) -> FirstPolicyDraft:
    slug = options["source"] or options["name"]
    arguments: dict[str, Any] = {"version": begun.version, "at": now(), "actor": COMMAND}
    if options["slurmrestd"] and not options["sacct"]:
        _work_run(collect_now(slug=slug, at=now(), actor=COMMAND).pk)
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
    _work_run(done.run_id)


def _work_run(run_id: int) -> None:
    run = work_run_now(run_id)
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
            write(f"  {row.group}/{row.user}: {row.difference:+,.0f}: {reason_text(row, comparison.unit)}")


SETUP = CommandAction(
    help="set up shadow mode for a Slurm site: policy, usage and scheduler at once",
    add_arguments=_add_arguments,
    run=_set_up,
)
