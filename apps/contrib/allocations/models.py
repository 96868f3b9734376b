"""Steps that rules of allocations have taken, and requests for allocations."""

from __future__ import annotations

from uuid import uuid4

from django.conf import settings
from django.db import models

from apps.core.derived_state import in_tables
from apps.policies.allocation_rules import LONGEST_RULE_NAME
from apps.policies.models import Policy
from apps.policies.units import LONGEST_SYMBOL

DERIVED_STATE = (
    in_tables(
        "RuleStep",
        holds="that a rule of allocations acted, with its numbers",
        key="policy, rule, key of the step: an allocation or entry, and a period or day",
        inputs="the rule, allocations and usage at that instant",
        range="one step",
        ends="never: what was done once isn't done again, also after it was undone",
    ),
)


class RuleStep(models.Model):
    """One step of a rule: written in the transaction of its change set, and unique, so that it is taken once.

    level: of thresholds, from 1; 0: re-armed. number: the revision; null if it only notified, or changed nothing.
    facts: path, formula, numbers as pairs of name and value, percent of a notice, and what became of shares.
    """

    policy = models.ForeignKey(Policy, on_delete=models.CASCADE, related_name="rule_steps")
    rule = models.CharField(max_length=LONGEST_RULE_NAME)
    key = models.CharField(max_length=128)
    entry_uid = models.UUIDField()
    allocation_uid = models.UUIDField(null=True)
    on = models.DateField()
    at = models.DateTimeField()
    level = models.PositiveSmallIntegerField(null=True)
    number = models.PositiveIntegerField(null=True)
    facts = models.JSONField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["policy", "rule", "key"], name="packs_rule_step_once")]
        indexes = [models.Index(fields=["policy", "-at"], name="packs_rule_step_newest")]

    def __str__(self) -> str:
        return f"{self.rule}: {self.key}"


class AllocationRequest(models.Model):
    """A lead's request for hours of an entry. A grant makes the allocation; its amount and days may differ."""

    class State(models.TextChoices):
        OPEN = "open"
        GRANTED = "granted"
        DECLINED = "declined"
        WITHDRAWN = "withdrawn"

    uid = models.UUIDField(unique=True, default=uuid4, editable=False)
    policy = models.ForeignKey(Policy, on_delete=models.CASCADE, related_name="allocation_requests")
    entry_uid = models.UUIDField()
    unit = models.CharField(max_length=LONGEST_SYMBOL)
    amount = models.FloatField()
    starts_on = models.DateField()
    ends_on = models.DateField()
    reason = models.TextField()
    author = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    author_name = models.CharField(max_length=256)
    created_at = models.DateTimeField()
    state = models.CharField(max_length=9, choices=State.choices, default=State.OPEN)
    decided_at = models.DateTimeField(null=True)
    decided_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    decided_name = models.CharField(max_length=256, blank=True, default="")
    answer = models.TextField(blank=True, default="")
    granted_amount = models.FloatField(null=True)
    allocation_uid = models.UUIDField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["policy", "entry_uid", "unit"], condition=models.Q(state="open"), name="packs_request_open_once"
            )
        ]
        indexes = [models.Index(fields=["policy", "-created_at"], name="packs_request_newest")]

    def __str__(self) -> str:
        return f"{self.amount:g} {self.unit} for {self.entry_uid}"
