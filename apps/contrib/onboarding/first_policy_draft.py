"""Prepare a first policy: read a tree from a file and an accounting log, and map accounts. Nothing is published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import IO, Any
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext as _

from apps.accounts import audit_log as audit
from apps.accounts.actor import Actor
from apps.contrib.onboarding.models import FirstPolicyDraft
from apps.contrib.onboarding.slurm_outputs import (
    former_lines_of,
    printed_at,
    read_site_log,
    read_site_outputs,
    read_sshare,
)
from apps.core.errors import Conflict, FieldProblem, Invalid, NotAllowed, NotFound, Stale, TooLarge
from apps.mapping.name_rules import default_rules
from apps.mapping.partition_accounts import register_partitions
from apps.mapping.rules.rule import Rule
from apps.mapping.services import set_rules
from apps.policies.files.exports import compress_text, decompress_text, store_import_file
from apps.policies.formats import htcondor
from apps.policies.formats.base import LastImport
from apps.policies.formats.decoding import text_of
from apps.policies.formats.registry import get_format, guess_format, has_associations, maps_by, read_file
from apps.policies.models import Policy
from apps.policies.publishing.direct import create_policy_from_tree, tree_of_document
from apps.policies.settings import PolicySettings, without_unknown_decay
from apps.policies.tree.columns import TreeColumns, pack_tree, unpack_tree
from apps.priorities.slurm_config import CALC_PERIOD_S, CHARGES_RUNNING, SlurmConfig, read_slurm_config
from apps.priorities.slurm_outputs import SiteOutputs, split_outputs
from apps.priorities.slurm_qos import class_factors, read_usage_factors
from apps.runs.models import Run
from apps.usage.models import Source
from apps.usage.parsers.registry import AUTO
from apps.usage.records import uploads
from apps.usage.services import NewImport, confirm_import, set_billing_weights, start_import, zone_of

MOST_DECISIONS = 1_000
_NO_ZONE = "naive_time"


class LogState(StrEnum):
    """State of the accounting log."""

    NONE = "none"
    READING = "reading"
    FAILED = "failed"
    NO_ZONE = "no_zone"  # times without a zone: the user must choose it
    DECIDE = "decide"
    IMPORTING = "importing"
    READY = "ready"


def require_setup(actor: Actor) -> None:
    if not actor.is_admin:
        raise NotAllowed(_("Only administrators create a first policy: ask one to send the scheduler’s tree and log."))


def get_first_policy_draft(*, actor: Actor) -> FirstPolicyDraft | None:
    """The open draft; None if there is none."""
    require_setup(actor)
    drafts = FirstPolicyDraft.objects.filter(is_open=True)
    return drafts.select_related("source", "dry_run__run", "dry_run__source", "usage_import__run").first()


def tree_of(beginning: FirstPolicyDraft) -> TreeColumns:
    return unpack_tree(beginning.tree, beginning.tree_digest)


def rules_of(beginning: FirstPolicyDraft, tree: TreeColumns) -> tuple[Rule, ...]:
    """The initial mapping rules of the policy."""
    namespace = beginning.source.namespace if beginning.source else ""
    return default_rules(tree, namespace, beginning.decisions, maps_by=maps_by(beginning.facts["format"]))


def log_state(beginning: FirstPolicyDraft) -> LogState:
    if beginning.source_id is None:
        return LogState.NONE
    if beginning.usage_import is not None:
        state = beginning.usage_import.run.state
        if state in (Run.State.QUEUED, Run.State.RUNNING):
            return LogState.IMPORTING
        return LogState.READY if state == Run.State.SUCCEEDED else LogState.FAILED
    if beginning.dry_run is None:
        return LogState.READY  # a source that already had usage
    run = beginning.dry_run.run
    if run.state in (Run.State.QUEUED, Run.State.RUNNING):
        return LogState.READING
    if run.state != Run.State.SUCCEEDED:
        return LogState.FAILED
    is_naive = run.result.get("by_code", {}).get(_NO_ZONE, 0) > 0
    return LogState.NO_ZONE if is_naive and not run.counts.get("new") else LogState.DECIDE


def read_tree(
    *,
    content: bytes,
    file_name: str,
    format: str,
    slurm_config: bytes = b"",
    sshare: bytes = b"",
    at: datetime,
    actor: Actor,
) -> FirstPolicyDraft:
    """Create the draft, or replace its tree. The log stays; decisions about accounts are removed with their entries.

    slurm_config: output of `scontrol show config`. sshare: current output of site_commands.SSHARE, to compare with
    our numbers. Empty ones leave the stored output. content may contain the outputs of all three.
    """
    require_setup(actor)
    outputs = split_outputs(text_of(content)) if format in (AUTO, "sacctmgr") else SiteOutputs()
    if outputs.dump and (outputs.config or outputs.sshare):
        content = outputs.dump.encode()
        slurm_config, sshare = slurm_config or outputs.config.encode(), sshare or outputs.sshare.encode()
    tree_format = guess_format(text_of(content)) if format == AUTO else get_format(format)
    if tree_format is None:
        raise Invalid(
            _("The format was not recognised: choose it."),
            code="unknown_format",
        )
    declared = read_file(tree_format, content)
    tree = tree_of_document(declared, tree_format)
    half_life_s = htcondor.half_life_s(text_of(content)) if tree_format is htcondor.FORMAT else None
    if len(tree) < 2:
        raise Invalid(_("This file contains no entries: a tree needs at least one group or user."), code="empty_tree")
    config = read_slurm_config(outputs.qos + text_of(slurm_config)) if slurm_config else None
    usage_factors = read_usage_factors(outputs.qos)
    blob, digest = pack_tree(tree)
    left = None if tree_format.remembers is None else tree_format.remembers(text_of(content), declared)
    facts: dict[str, Any] = {
        "format": tree_format.name,
        "label": _(tree_format.label),
        "policy": declared.policy,
        "ignored": list(declared.ignored),
    }
    values: dict[str, Any] = {
        "file_name": file_name[-255:] or "tree",
        "facts": facts,
        "file_settings": dict(declared.settings),
        "left": None if left is None else compress_text(left.text),
        "tree": blob,
        "tree_digest": digest,
        "decisions": [],
        "updated_at": at,
    }
    if sshare:
        values |= _sshare_columns(sshare, declared.policy, printed_at(text_of(slurm_config)) or at)
    with transaction.atomic():
        beginning = FirstPolicyDraft.objects.select_for_update(no_key=True).filter(is_open=True).first()
        if config is not None:
            printed = text_of(slurm_config)
            facts["former_lines"] = former_lines_of(printed, printed_at(printed) or at)
        elif beginning:
            facts["former_lines"] = beginning.facts.get("former_lines", {})
        facts["slurm_config"] = (
            beginning.facts.get("slurm_config") if config is None and beginning else _config_facts(config)
        )
        if usage_factors is not None:
            values["file_settings"]["metric"] = {"class_factors": class_factors(usage_factors)}
        values["file_settings"] |= (facts["slurm_config"] or {}).get("settings", {})
        if half_life_s is not None:
            values["file_settings"]["window"] = {"aging": "exponential", "half_life_s": half_life_s}
        if beginning is None:
            made = {"author": actor.user, "author_name": actor.name, "created_at": at}
            beginning = FirstPolicyDraft.objects.create(**values, **made)
        else:
            _save(beginning, **values)
        details = {"format": tree_format.name, "n_entries": len(tree), "tree_digest": digest}
        audit.record(actor=actor, verb="setup.tree_read", at=at, subject=beginning.file_name, details=details)
    return beginning


def read_tree_here(*, at: datetime, actor: Actor) -> FirstPolicyDraft:
    """Like `read_tree`, with outputs of Slurm's commands on this host, if the settings allow it."""
    require_setup(actor)
    name = _("Commands on this host")
    return read_tree(content=read_site_outputs().encode(), file_name=name, format="sacctmgr", at=at, actor=actor)


def send_log_here(*, version: int, source_slug: str, at: datetime, actor: Actor) -> FirstPolicyDraft:
    """Like `send_log`, with sacct's output on this host for the last 90 days."""
    require_setup(actor)
    with read_site_log() as file:
        return send_log(LogFile(file, "sacct", AUTO, source_slug, ""), version=version, at=at, actor=actor)


def _sshare_columns(sshare: bytes, cluster: str, at: datetime) -> dict[str, Any]:
    text = text_of(sshare)
    read_sshare(text, cluster)
    blob = compress_text(text)
    if blob is None:
        raise TooLarge(_("The output of sshare is too large."))
    return {"sshare": blob, "sshare_at": at}


def _config_facts(config: SlurmConfig | None) -> dict[str, Any] | None:
    if config is None:
        return None
    lines = [line.to_json() for line in config.lines]
    return {"settings": config.settings, "lines": lines, "billing_weights": config.billing_weights}


def _billing_weights(beginning: FirstPolicyDraft) -> Mapping[str, Any] | None:
    """Weights of Slurm's configuration; None if it wasn't read."""
    config = beginning.facts.get("slurm_config")
    return config.get("billing_weights", {}) if config else None


def keep_billing(beginning: FirstPolicyDraft, source: Source, *, at: datetime, actor: Actor) -> None:
    """Let the source compute billing with the weights of Slurm's configuration, if it was read."""
    weights = _billing_weights(beginning)
    if weights is not None:
        set_billing_weights(source, weights, at=at, actor=actor)


@dataclass(frozen=True)
class LogFile:
    """An accounting log for a new source."""

    file: IO[bytes]
    file_name: str
    format: str
    source_slug: str
    time_zone: str


def send_log(log: LogFile, *, version: int, at: datetime, actor: Actor) -> FirstPolicyDraft:
    """Start a dry run of the log into a new source."""
    with transaction.atomic():
        beginning = lock_draft(version, actor)
        dry = start_import(
            NewImport(
                source_slug=log.source_slug,
                format=log.format,
                file=log.file,
                file_name=log.file_name,
                time_zone=log.time_zone,
                dry_run=True,
                makes_source=True,
                billing_weights=_billing_weights(beginning),
            ),
            at=at,
            actor=actor,
        )
        return _save(beginning, source=dry.source, dry_run=dry, usage_import=None, updated_at=at)


def use_source(*, version: int, source_slug: str, at: datetime, actor: Actor) -> FirstPolicyDraft:
    """Use a source that already has usage instead of a file."""
    with transaction.atomic():
        beginning = lock_draft(version, actor)
        source = Source.objects.filter(slug=source_slug).first()
        if source is None or source.last_record_end_at is None:
            raise NotFound(_("No usage source with this name has records."))
        keep_billing(beginning, source, at=at, actor=actor)
        return _save(beginning, source=source, dry_run=None, usage_import=None, updated_at=at)


def choose_zone(*, version: int, time_zone: str, at: datetime, actor: Actor) -> FirstPolicyDraft:
    """Read the file again in this time zone."""
    with transaction.atomic():
        beginning = lock_draft(version, actor)
        if zone_of(time_zone.strip()) is None:
            problem = FieldProblem("time_zone", "Stockholm or UTC/Stockholm or UTC")
            raise Invalid(f"{problem.message}.", fields=[problem])
        dry = beginning.dry_run
        if dry is None or not uploads.exists(dry.stored_path):
            raise Conflict(_("The accounting log is missing: import it, or use a source with usage."), code="file_gone")
        with uploads.path_of(dry.stored_path).open("rb") as file:
            again = start_import(
                NewImport(
                    source_slug=dry.source.slug,
                    format=dry.format,
                    file=file,
                    file_name=dry.file_name,
                    time_zone=time_zone.strip(),
                    dry_run=True,
                ),
                at=at,
                actor=actor,
            )
        return _save(beginning, dry_run=again, usage_import=None, updated_at=at)


def confirm_log(*, version: int, at: datetime, actor: Actor) -> FirstPolicyDraft:
    """Start the real import after the dry run. Its usage counts for no entry until there is a policy."""
    with transaction.atomic():
        beginning = lock_draft(version, actor)
        if beginning.dry_run is None:
            raise Conflict(
                _("The accounting log is missing: import it, or use a source with usage."), code="not_confirmable"
            )
        keep_billing(beginning, beginning.dry_run.source, at=at, actor=actor)
        made = confirm_import(import_id=beginning.dry_run.pk, at=at, actor=actor)
        return _save(beginning, usage_import=made, updated_at=at)


def remove_log(*, version: int, at: datetime, actor: Actor) -> FirstPolicyDraft:
    """Remove the log from the draft, so that another one can be sent. Imported usage stays in its source."""
    with transaction.atomic():
        beginning = lock_draft(version, actor)
        return _save(beginning, source=None, dry_run=None, usage_import=None, decisions=[], updated_at=at)


def decide_accounts(
    *, version: int, decisions: Sequence[dict[str, str]], at: datetime, actor: Actor
) -> FirstPolicyDraft:
    """Attach accounts to entries; other decisions stay.

    decisions: user_pattern, group_pattern, fqan_pattern and `entry`, a path ("" for none).
    """
    with transaction.atomic():
        beginning = lock_draft(version, actor)
        tree = tree_of(beginning)
        kept = {_names_of(decision): decision for decision in beginning.decisions}
        problems = []
        for decision in decisions:
            uid = _entry_at(tree, decision["entry"])
            if decision["entry"].strip() and uid is None:
                problems.append(
                    FieldProblem(decision["entry"][:200], "is not an entry of this tree that accepts accounts")
                )
            kept.pop(_names_of(decision), None)
            if uid is not None:
                kept[_names_of(decision)] = {**decision, "entry": str(uid)}
        if problems:
            raise Invalid(f"{problems[0].where} {problems[0].message}.", code="no_such_entry", fields=problems)
        if len(kept) > MOST_DECISIONS:
            raise Invalid(_("Map at most %(n)s accounts manually; use rules for more.") % {"n": MOST_DECISIONS})
        details = {"n_decided": len(decisions), "n_kept": len(kept)}
        audit.record(actor=actor, verb="setup.accounts_decided", at=at, subject=beginning.file_name, details=details)
        return _save(beginning, decisions=list(kept.values()), updated_at=at)


def discard_draft(*, version: int, at: datetime, actor: Actor) -> None:
    """Delete the draft; imported usage stays in its source."""
    with transaction.atomic():
        beginning = lock_draft(version, actor)
        audit.record(actor=actor, verb="setup.given_up", at=at, subject=beginning.file_name, details={})
        beginning.delete()


def lock_draft(version: int, actor: Actor) -> FirstPolicyDraft:
    """Lock the open draft until the end of the caller's transaction.

    Raises:
        NotFound: there is none.
        Stale: it is not the version that the caller loaded.
    """
    require_setup(actor)
    drafts = FirstPolicyDraft.objects.select_for_update(of=("self",), no_key=True).filter(is_open=True)
    beginning = drafts.select_related("dry_run__source", "dry_run__run", "source", "usage_import__run").first()
    if beginning is None:
        raise NotFound(_("No set-up to continue: send the scheduler’s tree first."))
    if beginning.version != version:
        raise Stale(_("Another person changed this first"))
    return beginning


def _save(beginning: FirstPolicyDraft, **changed: Any) -> FirstPolicyDraft:
    for name, value in changed.items():
        setattr(beginning, name, value)
    beginning.version += 1
    beginning.save(update_fields=[*changed, "version"])
    if beginning.source is not None and has_associations(beginning.facts["format"]):
        tree = tree_of(beginning)
        register_partitions(tree, rules_of(beginning, tree), at=beginning.updated_at)
    return beginning


def _names_of(decision: dict[str, str]) -> tuple[str, str, str]:
    return decision.get("user_pattern", ""), decision.get("group_pattern", ""), decision.get("fqan_pattern", "")


def _entry_at(tree: TreeColumns, path: str) -> UUID | None:
    wanted = path.strip()
    if not wanted:
        return None
    i = tree.index_of_path(wanted if wanted.startswith("/") else f"/{wanted}")
    return None if i is None or i == 0 or tree.is_reserve[i] else tree.uuid(i)


def proposed_settings(beginning: FirstPolicyDraft) -> PolicySettings:
    """Settings from the file and Slurm's configuration, else defaults for a scheduler with this tree."""
    read, _gone = without_unknown_decay(beginning.file_settings)
    policy_settings = PolicySettings.from_json(read)
    if "algorithm" in beginning.file_settings or not has_associations(str(beginning.facts.get("format", ""))):
        return policy_settings
    return settings_with(policy_settings, "slurm-fair-tree", float(policy_settings.window["half_life_s"]))


def settings_with(policy_settings: PolicySettings, algorithm: str, half_life_s: float) -> PolicySettings:
    """Settings with another algorithm and half-life (0: no decay). Slurm's algorithms count all usage, with Slurm's
    decay, and running jobs.
    """
    approach: Mapping[str, Any] = policy_settings.approach
    window: dict[str, Any] = {"aging": "exponential", "half_life_s": max(1, round(half_life_s))}
    if algorithm.startswith("slurm-"):
        approach = CHARGES_RUNNING
        period_s = policy_settings.window.get("calc_period_s", CALC_PERIOD_S)
        window = {**window, "aging": "slurm", "length_s": None, "calc_period_s": period_s}
        if not round(half_life_s):
            window = {"aging": "none", "length_s": None}
    chosen = policy_settings.algorithm if policy_settings.algorithm["name"] == algorithm else {"name": algorithm}
    return PolicySettings.from_json({"algorithm": chosen, "window": window, "approach": approach}, base=policy_settings)


def publish_draft(
    *, version: int, slug: str, name: str, settings: Mapping[str, Any], reason: str, at: datetime, actor: Actor
) -> Policy:
    """Publish the draft as a policy with its mapping rules. settings: parts of PolicySettings; others are as
    proposed.
    """
    with transaction.atomic():
        beginning = _lock_ready_draft(version, at, actor)
        tree = tree_of(beginning)
        wanted = PolicySettings.from_json(settings, base=proposed_settings(beginning))
        policy = create_policy_from_tree(
            slug=slug, name=name, tree=tree, settings=wanted, reason=reason, at=at, actor=actor
        )
        if beginning.left:
            left = LastImport(beginning.facts["policy"], decompress_text(bytes(beginning.left)))
            store_import_file(policy, left, tree, change_set=None, at=at, actor=actor)
        rules = rules_of(beginning, tree)
        set_rules(policy_slug=slug, rules=rules, reason=reason, at=at, actor=actor)
        _close(beginning, policy, at)
    return policy


def end_draft(*, version: int, policy: Policy, at: datetime, actor: Actor) -> None:
    """Close the draft without publishing it: its log feeds a policy that stays as it is."""
    with transaction.atomic():
        _close(_lock_ready_draft(version, at, actor), policy, at)


def _lock_ready_draft(version: int, at: datetime, actor: Actor) -> FirstPolicyDraft:
    """The locked draft with an imported log, whose source computes billing as Slurm does."""
    beginning = lock_draft(version, actor)
    if log_state(beginning) is not LogState.READY or beginning.source is None:
        raise Conflict(_("The accounting log is missing: import it, or use a source with usage."))
    keep_billing(beginning, beginning.source, at=at, actor=actor)
    return beginning


def _close(beginning: FirstPolicyDraft, policy: Policy, at: datetime) -> None:
    beginning.is_open, beginning.policy, beginning.updated_at = False, policy, at
    beginning.save(update_fields=["is_open", "policy", "updated_at"])
