"""The table of drafts of first policies."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q


class FirstPolicyDraft(models.Model):
    """The draft of a first policy: the tree of a file, and the log it is compared with. Nothing is published.

    facts: other facts from the file (format, cluster, what was ignored). decisions: manually attached accounts, each
    with its names and the entry's uid. One draft is open at a time; any authorised user can continue it.
    """

    goes_with_owner: ClassVar[bool] = True

    is_open = models.BooleanField(default=True)
    file_name = models.CharField(max_length=255)
    facts = models.JSONField(default=dict)
    file_settings = models.JSONField(default=dict)
    left = models.BinaryField(null=True)  # rest of the file, for later exports: see apps.policies.files.exports
    sshare = models.BinaryField(null=True)  # compressed output of the scheduler's sshare, for comparison
    sshare_at = models.DateTimeField(null=True)  # time of that output
    tree = models.BinaryField()
    tree_digest = models.CharField(max_length=64)
    source = models.ForeignKey("usage.Source", null=True, on_delete=models.SET_NULL, related_name="+")
    dry_run = models.ForeignKey("usage.Import", null=True, on_delete=models.SET_NULL, related_name="+")
    usage_import = models.ForeignKey("usage.Import", null=True, on_delete=models.SET_NULL, related_name="+")
    decisions = models.JSONField(default=list)
    policy = models.ForeignKey("policies.Policy", null=True, on_delete=models.SET_NULL, related_name="+")
    version = models.PositiveIntegerField(default=1)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    author_name = models.CharField(max_length=256)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["is_open"], condition=Q(is_open=True), name="onboarding_firstpolicydraft_one_open"
            )
        ]

    def __str__(self) -> str:
        return f"the draft from {self.file_name}"
