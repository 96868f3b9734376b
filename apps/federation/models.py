"""What this site publishes and with which keys, and what it mounts of others."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from apps.policies.models import OfCurrentPolicies


class SiteKey(models.Model):
    """A key of this authority. The newest one signs; each but the first was handed over to by the one before."""

    number = models.PositiveIntegerField(unique=True)
    fingerprint = models.CharField(max_length=64, unique=True)
    public = models.BinaryField()
    sealed = models.TextField()  # the private key, sealed with SECRET_KEY
    rotation_signature = models.BinaryField(default=b"", blank=True)  # signature of the key before over this one
    made_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"key {self.number}: {self.fingerprint[:16]}"


class Publication(models.Model):
    """A subtree published to others, as one series of documents."""

    policy = models.ForeignKey("policies.Policy", on_delete=models.CASCADE, related_name="publications")
    entry_uid = models.UUIDField()
    name = models.CharField(max_length=128, unique=True)  # as addresses and documents have it
    expires_after_s = models.PositiveIntegerField(default=7 * 86_400)
    is_open = models.BooleanField(default=False)  # open to all; else a token is needed
    made_at = models.DateTimeField()

    objects = OfCurrentPolicies["Publication"]()
    all_objects = models.Manager["Publication"]()  # with those of archived policies

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["policy", "entry_uid"], name="federation_publication_entry"),
            models.CheckConstraint(condition=Q(expires_after_s__gte=60), name="federation_publication_expires"),
        ]

    def __str__(self) -> str:
        return self.name


class PublishedDocument(models.Model):
    """One signed version of a publication. A published version never changes."""

    publication = models.ForeignKey(Publication, on_delete=models.CASCADE, related_name="documents")
    version = models.PositiveBigIntegerField()
    digest = models.CharField(max_length=64)  # of the canonical document
    content_digest = models.CharField(max_length=64)  # of what it says besides version and times
    revision_number = models.PositiveIntegerField()
    n_entries = models.PositiveIntegerField()
    issued_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    key_fingerprint = models.CharField(max_length=64)
    basis = models.CharField(max_length=64, blank=True, default="")  # for which it was last found to say what is so
    data = models.BinaryField()  # the signed document, zstd

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["publication", "version"], name="federation_published_version"),
        ]

    def __str__(self) -> str:
        return f"version {self.version} of publication {self.publication_id}"


class Remote(models.Model):
    """Something of another authority's that is fetched on a schedule: where, by which key, and how it went.

    What is trusted of the other side (`fingerprint` and how far it was read) moves only after everything was checked.
    """

    class State(models.TextChoices):
        ACTIVE = "active", "Fetched on a schedule"
        PAUSED = "paused", "Not fetched until resumed"
        FROZEN = "frozen", "Fetched, but not applied"
        BLOCKED = "blocked", "History forked or key changed: an administrator must decide"

    class StaleAction(models.TextChoices):
        KEEP = "keep", "Keep the current version"
        FREEZE = "freeze", "Freeze until a decision"
        LOCAL = "local", "Use local usage only until contact returns"

    policy = models.ForeignKey("policies.Policy", on_delete=models.CASCADE, related_name="%(class)ss")
    entry_uid = models.UUIDField()
    url = models.URLField(max_length=2048)
    issuer = models.CharField(max_length=128)
    fingerprint = models.CharField(max_length=64)
    sealed_token = models.TextField(blank=True, default="")  # what the other side gave us to read it, sealed
    expires_at = models.DateTimeField(null=True)  # of the newest good document, with issued_at
    issued_at = models.DateTimeField(null=True)
    state = models.CharField(max_length=16, choices=State.choices, default=State.ACTIVE)
    every_s = models.PositiveIntegerField(default=300)
    due_at = models.DateTimeField(null=True)
    max_age_s = models.PositiveIntegerField(default=86_400)
    stale_action = models.CharField(max_length=16, choices=StaleAction.choices, default=StaleAction.KEEP)
    most_bytes = models.PositiveIntegerField(default=32 * 1024**2)
    etag = models.CharField(max_length=256, blank=True, default="")
    fetched_at = models.DateTimeField(null=True)  # the last try
    good_at = models.DateTimeField(null=True)  # the last try that confirmed or brought a good document
    error_code = models.CharField(max_length=64, blank=True, default="")  # of the last try; "" when it worked
    error = models.TextField(blank=True, default="")
    n_failed = models.PositiveIntegerField(default=0)  # tries in a row
    made_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    made_at = models.DateTimeField()

    class Meta:
        abstract = True


class Mount(Remote):
    """An entry whose children another authority describes, within limits that ours sets."""

    publication = models.CharField(max_length=128)
    version = models.PositiveBigIntegerField(default=0)  # the newest that was found good
    digest = models.CharField(max_length=64, blank=True, default="")
    landed_version = models.PositiveBigIntegerField(default=0)  # the current one; 0: none yet
    issuers = models.JSONField(default=list)  # authorities whose documents lie below, of the newest
    document = models.BinaryField(default=b"")  # the newest signed document, zstd
    most_points = models.FloatField(default=5.0)  # what moves a target further is held for review
    most_entries = models.PositiveIntegerField(default=10_000)  # that come, go or change at once
    most_levels = models.PositiveIntegerField(default=32)
    keep_usage = models.BooleanField(default=False)  # of entries that a version removes: their accounts count here
    held = models.ForeignKey(
        "policies.ChangeSet", null=True, on_delete=models.SET_NULL, related_name="+"
    )  # the newest document, waiting for a decision

    objects = OfCurrentPolicies["Mount"]()
    all_objects = models.Manager["Mount"]()  # with those of archived policies

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["policy", "entry_uid"], name="federation_mount_entry"),
            models.CheckConstraint(condition=Q(every_s__gte=10), name="federation_mount_every"),
        ]
        indexes = [models.Index(fields=["due_at"], name="federation_mount_due")]

    def __str__(self) -> str:
        return f"{self.issuer}, {self.publication}"


class Subscription(Remote):
    """Usage of an entry and all below it at another site, as a source of its own (kind `peer`).

    The entry is a mount, whose uids both sites have, or one that this authority publishes and others mount.
    """

    feed = models.CharField(max_length=128)
    root_uid = models.UUIDField(null=True)  # of the entry over there, by the first document: a mount has its own uid
    number = models.PositiveBigIntegerField(default=0)  # how far it was read; 0: nothing yet
    source = models.OneToOneField("usage.Source", on_delete=models.PROTECT, related_name="subscription")
    capacity_cores = models.FloatField()  # as agreed with the peer: usage can't exceed it
    reported_capacity_cores = models.FloatField(
        null=True
    )  # as declared now; a larger one applies once a manager agrees
    enforced_version = models.PositiveBigIntegerField(null=True)  # of our publication, active at that site
    running_held = models.BooleanField(default=False)  # more cores run there at once than it has: they don't count
    checked_number = models.PositiveIntegerField(default=0)  # revision last checked for out-of-scope entries
    is_left_behind = models.BooleanField(default=False)  # more than one document holds: fetch again at once
    seen_number = models.PositiveBigIntegerField(default=0)  # the newest known one: past `number` in between
    seen_mark = models.CharField(max_length=32, blank=True, default="")  # of that number, in the line that we follow
    untold = models.JSONField(default=list)  # hours we have that a reading from 0 hasn't delivered yet

    objects = OfCurrentPolicies["Subscription"]()
    all_objects = models.Manager["Subscription"]()  # with those of archived policies

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["policy", "entry_uid", "issuer"], name="federation_subscription_entry"),
            models.CheckConstraint(condition=Q(every_s__gte=10), name="federation_subscription_every"),
            models.CheckConstraint(condition=Q(capacity_cores__gt=0), name="federation_subscription_capacity"),
        ]
        indexes = [models.Index(fields=["due_at"], name="federation_subscription_due")]

    def __str__(self) -> str:
        return f"{self.issuer}, {self.feed}"


class HeldHour(models.Model):
    """An hour in which a peer reports more than its capacity: its sums don't count until a manager decides."""

    subscription = models.ForeignKey(Subscription, on_delete=models.CASCADE, related_name="held_hours")
    hour_at = models.DateTimeField()
    number = models.PositiveBigIntegerField()  # of the document that reported it
    cpu_s = models.FloatField()  # as reported
    most_cpu_s = models.FloatField()  # that the capacity allows
    found_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["subscription", "hour_at"], name="federation_heldhour_once")]

    def __str__(self) -> str:
        return f"{self.subscription_id} at {self.hour_at}"


class UsageFeed(models.Model):
    """Usage of an entry and all below it on this site's own sources, sent to others by the uids of the entries."""

    policy = models.ForeignKey("policies.Policy", on_delete=models.CASCADE, related_name="usage_feeds")
    entry_uid = models.UUIDField()
    name = models.CharField(max_length=128, unique=True)
    capacity_cores = models.FloatField()  # what this site declares that it has
    sends_running = models.BooleanField(default=True)
    keeps_days = models.PositiveIntegerField(default=400)  # older hours aren't sent
    expires_after_s = models.PositiveIntegerField(default=86_400)
    is_open = models.BooleanField(default=False)
    number = models.PositiveBigIntegerField(default=0)  # of the newest published state
    running_digest = models.CharField(max_length=64, blank=True, default="")
    running_number = models.PositiveBigIntegerField(default=0)  # at which the running jobs changed last
    basis = models.JSONField(default=dict)  # revision, mapping, watermarks … behind `number`
    made_at = models.DateTimeField()

    objects = OfCurrentPolicies["UsageFeed"]()
    all_objects = models.Manager["UsageFeed"]()  # with those of archived policies

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["policy", "entry_uid"], name="federation_feed_entry"),
            models.CheckConstraint(condition=Q(capacity_cores__gt=0), name="federation_feed_capacity"),
        ]

    def __str__(self) -> str:
        return self.name


class FeedHour(models.Model):
    """The digest of a feed's hour as last sent, and the number since which it is unchanged."""

    feed = models.ForeignKey(UsageFeed, on_delete=models.CASCADE, related_name="hours")
    hour_at = models.DateTimeField()
    digest = models.CharField(max_length=64)
    number = models.PositiveBigIntegerField()
    n_rows = models.PositiveIntegerField(default=0)  # entries with usage in it: how much a document holds

    class Meta:
        constraints = [models.UniqueConstraint(fields=["feed", "hour_at"], name="federation_feedhour_once")]
        indexes = [models.Index(fields=["feed", "number"], name="federation_feedhour_number")]

    def __str__(self) -> str:
        return f"{self.feed_id} at {self.hour_at}"


class FeedMark(models.Model):
    """A number that a feed came to, and a random mark. The same number come to by another way has another mark."""

    feed = models.ForeignKey(UsageFeed, on_delete=models.CASCADE, related_name="marks")
    number = models.PositiveBigIntegerField()
    mark = models.UUIDField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["feed", "number"], name="federation_feedmark_once")]

    def __str__(self) -> str:
        return f"{self.feed_id} at {self.number}"


class Reading(models.Model):
    """Who read what of ours last, and how far: the other direction of the table of peers."""

    publication = models.ForeignKey(Publication, null=True, on_delete=models.CASCADE, related_name="readings")
    feed = models.ForeignKey(UsageFeed, null=True, on_delete=models.CASCADE, related_name="readings")
    reader = models.CharField(max_length=128)  # the name of the token; "" where the feed is open
    version = models.PositiveBigIntegerField()  # of the publication, or number of the feed
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["publication", "feed", "reader"], nulls_distinct=False, name="federation_reading_once"
            ),
            models.CheckConstraint(
                condition=Q(publication__isnull=True) ^ Q(feed__isnull=True), name="federation_reading_of_one"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.reader or 'anybody'} at {self.at}"


class Fetch(models.Model):
    """One fetch from a peer and its result: the timeline of a mount or a subscription."""

    class Outcome(models.TextChoices):
        SAME = "same", "Unchanged"
        LANDED = "landed", "Applied"
        HELD = "held", "Held for review"
        FROZEN = "frozen", "Fetched, not applied"
        REFUSED = "refused", "Refused"
        UNREACHABLE = "unreachable", "No answer"

    mount = models.ForeignKey(Mount, null=True, on_delete=models.CASCADE, related_name="fetches")
    subscription = models.ForeignKey(Subscription, null=True, on_delete=models.CASCADE, related_name="fetches")
    at = models.DateTimeField()
    outcome = models.CharField(max_length=16, choices=Outcome.choices)
    version = models.PositiveBigIntegerField(null=True)
    n_bytes = models.PositiveBigIntegerField(default=0)
    duration_s = models.FloatField(default=0)
    code = models.CharField(max_length=64, blank=True, default="")
    message = models.TextField(blank=True, default="")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(mount__isnull=True) ^ Q(subscription__isnull=True), name="federation_fetch_of_one"
            ),
        ]
        indexes = [
            models.Index(fields=["mount", "-id"], name="federation_fetch_newest"),
            models.Index(fields=["subscription", "-id"], name="federation_fetch_newest_usage"),
        ]

    def __str__(self) -> str:
        return f"{self.outcome} at {self.at}"
