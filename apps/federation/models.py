"""What this site tells others of its policies and with which keys, and what of others' it has mounted."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q


class SiteKey(models.Model):
    """A key of this authority. The newest one signs; each but the first was handed over to by the one before."""

    number = models.PositiveIntegerField(unique=True)
    fingerprint = models.CharField(max_length=64, unique=True)
    public = models.BinaryField()
    sealed = models.TextField()  # the private key, sealed with SECRET_KEY
    handed_over = models.BinaryField(default=b"", blank=True)  # signature of the key before over this one
    made_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"key {self.number}: {self.fingerprint[:16]}"


class Publication(models.Model):
    """A subtree that is told to others, as one series of documents."""

    policy = models.ForeignKey("policies.Policy", on_delete=models.CASCADE, related_name="publications")
    entry_uid = models.UUIDField()
    name = models.CharField(max_length=128, unique=True)  # as addresses and documents have it
    expires_after_s = models.PositiveIntegerField(default=7 * 86_400)
    is_open = models.BooleanField(default=False)  # anybody may fetch it; else those with a token for it
    made_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["policy", "entry_uid"], name="federation_publication_entry"),
            models.CheckConstraint(condition=Q(expires_after_s__gte=60), name="federation_publication_expires"),
        ]

    def __str__(self) -> str:
        return self.name


class PublishedDocument(models.Model):
    """One version of a publication, as it was signed. A version once told is never told differently."""

    publication = models.ForeignKey(Publication, on_delete=models.CASCADE, related_name="documents")
    version = models.PositiveBigIntegerField()
    digest = models.CharField(max_length=64)  # of the canonical document
    content_digest = models.CharField(max_length=64)  # of what it says besides version and times
    revision_number = models.PositiveIntegerField()
    n_entries = models.PositiveIntegerField()
    issued_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    key_fingerprint = models.CharField(max_length=64)
    data = models.BinaryField()  # the signed document, zstd

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["publication", "version"], name="federation_published_version"),
        ]

    def __str__(self) -> str:
        return f"version {self.version} of publication {self.publication_id}"


class Mount(models.Model):
    """An entry whose children another authority describes: where from, by which key, within which limits.

    What is trusted of the other side (`fingerprint`, `version`, `digest`) moves only after everything was checked.
    """

    class State(models.TextChoices):
        ACTIVE = "active", "Fetched on a schedule"
        PAUSED = "paused", "Not fetched until somebody says so"
        FROZEN = "frozen", "Fetched and looked at, never put in force"
        BLOCKED = "blocked", "Its line was forked or its key changed: somebody has to look"

    class StaleAction(models.TextChoices):
        KEEP = "keep", "Keep what is in force"
        FREEZE = "freeze", "Freeze it until somebody decides"

    policy = models.ForeignKey("policies.Policy", on_delete=models.CASCADE, related_name="mounts")
    entry_uid = models.UUIDField()
    url = models.URLField(max_length=2048)
    issuer = models.CharField(max_length=128)
    publication = models.CharField(max_length=128)
    fingerprint = models.CharField(max_length=64)
    version = models.PositiveBigIntegerField(default=0)  # the newest that was found good
    digest = models.CharField(max_length=64, blank=True, default="")
    landed_version = models.PositiveBigIntegerField(default=0)  # the one in force; 0: none yet
    issuers = models.JSONField(default=list)  # authorities whose documents lie below, of the newest
    issued_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(null=True)
    document = models.BinaryField(default=b"")  # the newest signed document, zstd
    state = models.CharField(max_length=16, choices=State.choices, default=State.ACTIVE)
    every_s = models.PositiveIntegerField(default=300)
    due_at = models.DateTimeField(null=True)
    max_age_s = models.PositiveIntegerField(default=86_400)
    stale_action = models.CharField(max_length=16, choices=StaleAction.choices, default=StaleAction.KEEP)
    most_points = models.FloatField(default=5.0)  # what moves a target further is held for review
    most_entries = models.PositiveIntegerField(default=10_000)  # that come, go or change at once
    most_levels = models.PositiveIntegerField(default=32)
    most_bytes = models.PositiveIntegerField(default=32 * 1024**2)
    etag = models.CharField(max_length=256, blank=True, default="")
    fetched_at = models.DateTimeField(null=True)  # the last try
    good_at = models.DateTimeField(null=True)  # the last try that confirmed or brought a good document
    error_code = models.CharField(max_length=64, blank=True, default="")  # of the last try; "" when it worked
    error = models.TextField(blank=True, default="")
    n_failed = models.PositiveIntegerField(default=0)  # tries in a row
    held = models.ForeignKey(
        "policies.ChangeSet", null=True, on_delete=models.SET_NULL, related_name="+"
    )  # the newest document, waiting for a decision
    made_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    made_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["policy", "entry_uid"], name="federation_mount_entry"),
            models.CheckConstraint(condition=Q(every_s__gte=10), name="federation_mount_every"),
        ]
        indexes = [models.Index(fields=["due_at"], name="federation_mount_due")]

    def __str__(self) -> str:
        return f"{self.issuer}, {self.publication}"


class Fetch(models.Model):
    """One look at the other side, and what became of it: the timeline of a mount."""

    class Outcome(models.TextChoices):
        SAME = "same", "Nothing new"
        LANDED = "landed", "Put in force"
        HELD = "held", "Held for review"
        FROZEN = "frozen", "Looked at, not put in force"
        REFUSED = "refused", "Refused"
        UNREACHABLE = "unreachable", "No answer"

    mount = models.ForeignKey(Mount, on_delete=models.CASCADE, related_name="fetches")
    at = models.DateTimeField()
    outcome = models.CharField(max_length=16, choices=Outcome.choices)
    version = models.PositiveBigIntegerField(null=True)
    n_bytes = models.PositiveBigIntegerField(default=0)
    duration_s = models.FloatField(default=0)
    code = models.CharField(max_length=64, blank=True, default="")
    message = models.TextField(blank=True, default="")

    class Meta:
        indexes = [models.Index(fields=["mount", "-id"], name="federation_fetch_newest")]

    def __str__(self) -> str:
        return f"{self.outcome} at {self.at}"
