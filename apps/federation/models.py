"""What this site tells others of its policies, and the keys it does so with."""

from __future__ import annotations

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
