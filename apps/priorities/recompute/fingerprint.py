"""Fingerprint of what a recompute reads: equal ones give equal numbers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from django.conf import settings as site_settings

from apps import engine
from apps.mapping.rules.rule_set import RuleInputs
from apps.policies.models import Policy
from apps.policies.tree.stored import load_tree
from apps.priorities.local_only import LocalOnlyEntry, list_local_only_entries
from apps.priorities.recompute.inputs import PolicyState, current_state
from apps.usage.selectors import watermarks


@dataclass(frozen=True)
class Fingerprint:
    """Everything that decides the numbers of a snapshot; equal fingerprints give equal snapshots."""

    policy_slug: str
    revision: int
    mapping_version: int
    watermarks: Mapping[str, int]
    settings: Mapping[str, Any]
    engine_version: str
    as_of: datetime
    people: str = ""  # digest of the members of sign-in groups that membership rules name
    namespaces: Mapping[str, str] = field(default_factory=dict)  # of sources that rules name, by slug
    local_only: tuple[LocalOnlyEntry, ...] = ()  # entries in local-only fallback

    def to_json(self) -> dict[str, Any]:
        return {
            **({"people": self.people} if self.people else {}),
            **({"namespaces": dict(self.namespaces)} if self.namespaces else {}),
            **({"fallbacks": [fallback.to_json() for fallback in self.local_only]} if self.local_only else {}),
            "policy": self.policy_slug,
            "revision": self.revision,
            "mapping_version": self.mapping_version,
            "watermarks": dict(self.watermarks),
            "settings": dict(self.settings),
            "engine_version": self.engine_version,
            "as_of": self.as_of.astimezone(UTC).isoformat(),
        }

    @cached_property
    def digest(self) -> str:
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def read_fingerprint(policy: Policy, *, as_of: datetime, state: PolicyState | None = None) -> Fingerprint:
    """Fingerprint of what the database holds now. state: of a past instant; the current state by default."""
    state = state or current_state(policy)
    stored = None if state.mapping is None else state.mapping.rules
    rule_inputs = RuleInputs.of_tree(policy, load_tree(policy, state.revision), stored)
    return Fingerprint(
        policy_slug=policy.slug,
        revision=state.revision,
        mapping_version=state.mapping_version,
        watermarks=watermarks(),
        settings=state.settings,
        engine_version=engine.VERSION,
        as_of=as_of,
        people=rule_inputs.people,
        namespaces=rule_inputs.namespaces,
        local_only=tuple(fallback for fallback in list_local_only_entries(policy) if tick_of(fallback.since) <= as_of),
    )


def tick_of(at: datetime) -> datetime:
    """`at` rounded down to a whole tick: all workers compute priorities for the same instant."""
    tick_s = site_settings.FAIRSHARE_TICK_S
    return datetime.fromtimestamp(at.timestamp() // tick_s * tick_s, UTC)
