"""Packs shared by a link: the signed document as it was created, and until when the link is valid."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.db import models

from apps.core.derived_state import in_tables
from apps.policies.models import Policy

DERIVED_STATE = (
    in_tables(
        "SharedPack",
        holds="a report for an allocation board, as it was shared",
        key="its number",
        inputs="series, snapshots, revisions of the period",
        range="its period",
        ends="its end, or a withdrawal; it stays as it was shared",
    ),
)


class SharedPack(models.Model):
    """signed: both lines of the signed document, see `core.signing`. token_hash: SHA-256 of the link's secret, which
    has 256 random bits and is not stored.
    """

    policy = models.ForeignKey(Policy, models.CASCADE)
    entry_uid = models.UUIDField()
    entry_path = models.CharField(max_length=8_400)
    signed = models.BinaryField()
    digest = models.CharField(max_length=64)
    token_hash = models.BinaryField(unique=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    created_by_name = models.CharField(max_length=200)
    created_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "shared_pack"
        ordering = ("-pk",)

    def __str__(self) -> str:
        return f"{self.entry_path} until {self.ends_at:%Y-%m-%d}"

    def is_open(self, at: datetime) -> bool:
        return self.revoked_at is None and at < self.ends_at
