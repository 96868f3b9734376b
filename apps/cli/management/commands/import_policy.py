"""`manage.py import_policy --policy SLUG --format FORMAT FILE`: make a change set of a file's differences."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from django.db import transaction

from agent.site_commands import OF_SETTINGS, SSHARE, listed
from agent.site_commands import text_of as text_of_command
from apps.accounts.actor import COMMAND
from apps.core.clock import now
from apps.core.code_paths import command_name
from apps.core.counts import counted
from apps.core.errors import FieldProblem, Invalid
from apps.core.operator_commands import OperatorCommand
from apps.mapping.name_rules import count_mapped, map_by_names
from apps.mapping.rules.problems import other_case_text, problem_text
from apps.policies.files.import_export import FileImport, PolicyImport, import_policy, plan_import
from apps.policies.formats.decoding import text_of
from apps.policies.formats.registry import FORMATS, get_format, maps_by, read_file
from apps.policies.models import Policy
from apps.policies.selectors import list_policies
from apps.policies.services import make_policy
from apps.policies.tree.difference import EntryChange
from apps.policies.tree.stored import load_tree
from apps.priorities.selectors.class_factors import factor_name, unmatched_class_factors
from apps.priorities.sentences.numbers import NBSP, change_shares
from apps.priorities.slurm_config import ConfigLine, SlurmConfig, read_slurm_config
from apps.priorities.slurm_outputs import split_outputs

DIFFERS = 3  # exit status of --exit-code if the file differs: not an error like 1 (refused) and 2 (bad input)
_MOST_PRINTED_LINES = 50


class Command(OperatorCommand):
    help = (
        "Compares a file with the current policy and makes a change set of the differences. Without --publish it is a "
        "draft. Entries that the file lacks are archived, unless --keep-missing is given."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", nargs="?", help="file to import, also gzip; - for standard input")
        parser.add_argument("--policy", required=True, help="slug of the policy")
        parser.add_argument("--format", required=True, help=f"one of {', '.join(FORMATS)}")
        parser.add_argument(
            "--slurm-config",
            metavar="FILE",
            help=f"outputs of {listed(*OF_SETTINGS)}: import algorithm, decay, metric and approach, too",
        )
        parser.add_argument("--keep-missing", action="store_true", help="keep entries that the file lacks")
        parser.add_argument(
            "--follow",
            action="store_true",
            help="take new, moved, renamed and missing entries, and leave published shares and settings as they are",
        )
        parser.add_argument("--make", action="store_true", help="make the policy if it does not exist")
        parser.add_argument("--dry-run", action="store_true", help="print the differences and store nothing")
        parser.add_argument("--json", action="store_true", help="print the differences and the result as JSON")
        parser.add_argument(
            "--exit-code",
            action="store_true",
            help="with --dry-run: exit status 0 if nothing differs, 3 if something does",
        )
        parser.add_argument("--publish", action="store_true", help="publish the change set")
        parser.add_argument("--reason", default="", help="reason for the audit log; required with --publish")
        parser.add_argument(
            "--map",
            nargs="?",
            const="",
            metavar="NAMESPACE",
            help="with --publish: also make mapping rules that map users and groups to entries of the same name; "
            "NAMESPACE is needed if usage sources have several namespaces",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        options = _with_file(options)
        _refuse_contradictions(options)
        content, n_rules = _content(options["file"]), None
        # Configuration of a file, with what the dump says of QOS.
        config = (
            None
            if options["slurm_config"] is None
            else read_slurm_config(split_outputs(text_of(content)).qos + text_of(_content(options["slurm_config"])))
        )
        with transaction.atomic():  # an error in the file or in --map also undoes --make
            done = _import(options, content, config)
            if options["map"] is not None:
                n_rules = _map(done, options)
            transaction.set_rollback(options["dry_run"])
        for line in _config_lines(config):
            mark = " " if line.is_carried else "!"
            self.stderr.write(f"{mark} {line.name}={line.value}: {line.meaning}")
        self._print_result(done, config, as_json=options["json"])
        if n_rules is not None:
            added = f"{counted(n_rules, 'mapping rule')} added."
            self.stderr.write(added if n_rules else "The mapping rules are there already.")
        if not options["dry_run"]:
            self._print_mapped(done, is_mapped_by_names=n_rules is not None)
        if options["exit_code"] and not done.plan.is_empty:
            raise SystemExit(DIFFERS)

    def _print_mapped(self, done: PolicyImport, *, is_mapped_by_names: bool) -> None:
        """Print how many accounts the rules map to entries: unmapped accounts get the fallback factor."""
        policy = Policy.all_objects.get(pk=done.plan.policy.pk)
        mapped = count_mapped(policy, load_tree(policy) if done.revision is not None else done.plan.tree)
        n = f"{mapped.n_mapped:,} of {mapped.n_accounts:,} accounts of the usage sources"
        self.stderr.write(f"{n} map to entries of the tree.")
        for number, problem in mapped.problems:
            self.stderr.write(f"Rule {number}: {problem_text(problem)}")
        for factor in unmatched_class_factors(done.plan.settings.metric):
            self.stderr.write(f"The factor of {factor_name(factor)} matches no job so far.")
        for key, path in mapped.other_case[:_MOST_PRINTED_LINES]:
            self.stderr.write(other_case_text(key, path))
        if mapped.n_mapped < mapped.n_accounts or not mapped.n_rules:
            who = "The others get" if mapped.n_rules else "There is no mapping rule, so every account gets"
            remedy = "write mapping rules on the page Accounts."
            if not is_mapped_by_names:
                remedy = f"import with --publish --map, or {remedy}"
                remedy = f"To map users and groups to entries of their names, {remedy}"
            else:
                remedy = f"The tree has no entries of their names: add them, or {remedy}"
            self.stderr.write(f"{who} the fallback factor. {remedy}")

    def _print_result(self, done: PolicyImport, config: SlurmConfig | None, *, as_json: bool) -> None:
        plan = done.plan
        base = f"revision {plan.policy.head_number} of {plan.policy.slug}"
        if plan.ignored:
            self.stderr.write(f"not read, because no policy has it: {', '.join(plan.ignored)}")
            if plan.left is not None and plan.left.text:
                self.stderr.write(f"exports as {plan.format.name} keep it as the file has it")
        if as_json:
            lines = {} if config is None else {"slurm_config": [line.to_json() for line in _config_lines(config)]}
            self.stdout.write(json.dumps({**done.to_json(), **lines}, ensure_ascii=False))
            return
        if plan.is_empty:
            self.stdout.write(f"nothing to change: {base} says what the file says")
            return
        what = "dry run" if done.change_set is None else f"change set {done.change_set.pk}"
        self.stdout.write(f"{what} on {base}: {plan.in_words}")
        for change in plan.comparison.entries[:_MOST_PRINTED_LINES]:
            self.stdout.write(f"  {_line(change)}")
        more = plan.comparison.n_entries - _MOST_PRINTED_LINES
        if more > 0:
            self.stdout.write(f"  and {counted(more, 'more entry', 'more entries')}")
        if done.revision is not None:
            self.stdout.write(f"published as revision {done.revision.number}")
        elif done.change_set is not None:
            self.stderr.write("Nobody is affected yet: publish the change set, or add --publish --reason TEXT.")


def _config_lines(config: SlurmConfig | None) -> list[ConfigLine]:
    """What was read of the configuration, and what only the comparison with sshare can find out."""
    phase_s = config.settings["window"].get("phase_s") if config else None
    lines = list(config.lines) if config else []
    if phase_s:
        meaning = (
            "Slurm's periods start some seconds after BOOT_TIME, which no configuration shows. "
            f"`{command_name('scheduler setup')}`, given these outputs and that of {text_of_command(SSHARE)}, "
            "fits them to sshare."
        )
        lines.append(ConfigLine("phase_s", str(phase_s), meaning, is_carried=False))
    return lines


def _import(options: dict[str, Any], content: bytes, config: SlurmConfig | None) -> PolicyImport:
    file = FileImport(
        policy_slug=options["policy"],
        format=options["format"],
        content=content,
        settings=None if config is None else config.settings,
        keep_missing=options["keep_missing"],
        follow=options["follow"],
    )
    at = now()
    if options["make"] and options["policy"] not in {policy.slug for policy in list_policies(actor=COMMAND)}:
        read_file(get_format(options["format"]), content)  # reject an unreadable file before locking
        make_policy(slug=options["policy"], name=options["policy"], at=now(), actor=COMMAND)
    if options["dry_run"]:
        return PolicyImport(plan_import(file=file, at=at, actor=COMMAND))
    return import_policy(file=file, publish=options["publish"], reason=options["reason"], at=at, actor=COMMAND)


def _map(done: PolicyImport, options: dict[str, Any]) -> int:
    return map_by_names(
        policy_slug=done.plan.policy.slug,
        namespace=options["map"] or None,
        maps_by=maps_by(options["format"]),
        reason=options["reason"],
        at=now(),
        actor=COMMAND,
    )


def _refuse_contradictions(options: dict[str, Any]) -> None:
    if options["publish"] and options["dry_run"]:
        raise Invalid("--publish and --dry-run exclude each other.", fields=[FieldProblem("--dry-run", "is given")])
    if options["exit_code"] and not options["dry_run"]:
        raise Invalid("--exit-code needs --dry-run.", fields=[FieldProblem("--dry-run", "is missing")])
    if options["publish"] and not options["reason"].strip():
        raise Invalid("--publish needs --reason.", fields=[FieldProblem("--reason", "is missing")])
    for name in ("slurm_config", "make"):
        if options["follow"] and options[name]:
            word = f"--{name.replace('_', '-')}"
            message = "takes entries of a policy that exists, and none of its settings"
            raise Invalid(f"--follow {message}.", fields=[FieldProblem(word, "is given")])
    if options["map"] is not None and not options["publish"]:
        message = "needs --publish: rules lead to entries of the current revision"
        raise Invalid(f"--map {message}.", fields=[FieldProblem("--map", message)])


def _with_file(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options with the file, which may come after --map without a namespace: then argparse takes it as one.

    Raises:
        Invalid: there is no file.
    """
    if options["file"] is not None:
        return options
    if not options["map"]:
        raise Invalid("Name the file to import.", fields=[FieldProblem("file", "is missing")])
    return {**options, "file": options["map"], "map": ""}


def _line(change: EntryChange) -> str:
    """One change in words, such as `/physics/carl: added, target none → 33.3 %`."""
    shares = change_shares(change.before, change.after)
    before, after = (
        "none" if share is None else text.replace(NBSP, " ")
        for share, text in ((change.before, shares.before), (change.after, shares.after))
    )
    target = f"target {before} → {after}" if before != after else f"target {after}"
    return f"{change.path}: {', '.join(change.changes)}, {target}"


def _content(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise Invalid(f"{name}: {error.strerror}.", fields=[FieldProblem("file", "can't be read")]) from error
