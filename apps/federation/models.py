"""Documents and keys that this site publishes, and its mounts of and subscriptions to other authorities."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from apps.core.derived_state import in_tables
from apps.policies.models import OfCurrentPolicies

DERIVED_STATE = (
    in_tables(
        "PublishedDocument",
        holds="signed documents of a part of a tree",
        key="publication, version; digest of content and key",
        inputs="revision, mounts, signing key",
        range="until its expiry",
        ends="another content, key, or half of its lifetime; the last versions are kept",
    ),
    in_tables(
        "FeedHour",
        "FeedMark",
        "FeedRunning",
        holds="usage that is sent to subscribers, by hour",
        key="feed, hour; basis: revision, mapping, people, watermarks, days, first and last hour, running jobs’ end",
        inputs="buckets and running jobs of this site's sources, accounts, mapping, tree",
        range="`keeps_days` up to the present hour by the believed clock",
        ends=(
            "hours from the earliest change on are compared again; older ones are deleted; a range that moves "
            "back is built again"
        ),
    ),
    in_tables(
        "HeldHour",
        holds="reported hours of entries outside of the mount",
        key="subscription, hour, entry",
        inputs="documents of the peer, the tree",
        range="the hours of the feed",
        ends="the entry is back in scope, or the peer sends the hour again",
    ),
)


class SiteKey(models.Model):
    """A signing key of this authority. The newest one signs; each but the first was signed by its predecessor."""

    number = models.PositiveIntegerField(unique=True)
    fingerprint = models.CharField(max_length=64, unique=True)
    public = models.BinaryField()
    sealed = models.TextField()  # the private key, sealed with SECRET_KEY
    rotation_signature = models.BinaryField(default=b"", blank=True)  # the previous key's signature of this one
    made_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"key {self.number}: {self.fingerprint[:16]}"


class Publication(models.Model):
    """A subtree published to other sites, as a series of signed documents."""

    policy = models.ForeignKey("policies.Policy", on_delete=models.CASCADE, related_name="publications")
    entry_uid = models.UUIDField()
    name = models.CharField(max_length=128, unique=True)  # as in addresses and documents
    expires_after_s = models.PositiveIntegerField(default=7 * 86_400)
    is_open = models.BooleanField(default=False)  # readable by everyone, otherwise with a token only
    # The next version is at least this one: others may have seen smaller ones that a restored backup doesn't know.
    least_version = models.PositiveBigIntegerField(default=1, db_default=1)
    made_at = models.DateTimeField()

    objects = OfCurrentPolicies["Publication"]()
    all_objects = models.Manager["Publication"]()  # including archived policies

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
    content_digest = models.CharField(max_length=64)  # of its content without version and times
    revision_number = models.PositiveIntegerField()
    n_entries = models.PositiveIntegerField()
    issued_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    key_fingerprint = models.CharField(max_length=64)
    # the inputs for which it was last found to be current
    basis = models.CharField(max_length=64, blank=True, default="")
    data = models.BinaryField()  # the signed document, zstd

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["publication", "version"], name="federation_published_version"),
        ]

    def __str__(self) -> str:
        return f"version {self.version} of publication {self.publication_id}"


class Remote(models.Model):
    """Something of another authority that is fetched on a schedule: its address, trusted key and last result.

    The trusted state (`fingerprint` and the progress of reading) changes only after all checks have passed.
    """

    class State(models.TextChoices):
        ACTIVE = "active", "Fetched on a schedule"
        PAUSED = "paused", "Not fetched until resumed"
        FROZEN = "frozen", "Fetched, but not applied"
        BLOCKED = "blocked", "History forked or key changed: an administrator must decide"

    class StaleAction(models.TextChoices):
        KEEP = "keep", _("Keep the current version")
        FREEZE = "freeze", _("Freeze until a decision")
        LOCAL = "local", _("Use local usage only until contact returns")

    policy = models.ForeignKey("policies.Policy", on_delete=models.CASCADE, related_name="%(class)ss")
    entry_uid = models.UUIDField()
    url = models.URLField(max_length=2048)
    issuer = models.CharField(max_length=128)
    fingerprint = models.CharField(max_length=64)
    sealed_token = models.TextField(blank=True, default="")  # issued by the other side for this reader
    expires_at = models.DateTimeField(null=True)  # of the newest accepted document, with issued_at
    issued_at = models.DateTimeField(null=True)
    state = models.CharField(max_length=16, choices=State.choices, default=State.ACTIVE)
    every_s = models.PositiveIntegerField(default=300)
    due_at = models.DateTimeField(null=True)
    max_age_s = models.PositiveIntegerField(default=86_400)
    stale_action = models.CharField(max_length=16, choices=StaleAction.choices, default=StaleAction.KEEP)
    most_bytes = models.PositiveIntegerField(default=32 * 1024**2)
    etag = models.CharField(max_length=256, blank=True, default="")
    fetched_at = models.DateTimeField(null=True)  # the last attempt
    good_at = models.DateTimeField(null=True)  # the last attempt that confirmed or received a good document
    error_code = models.CharField(max_length=64, blank=True, default="")  # of the last attempt; "" if it succeeded
    error = models.TextField(blank=True, default="")
    n_failed = models.PositiveIntegerField(default=0)  # consecutive attempts
    made_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    made_at = models.DateTimeField()

    class Meta:
        abstract = True


class Mount(Remote):
    """An entry whose children are described by another authority's document, within local limits."""

    publication = models.CharField(max_length=128)
    version = models.PositiveBigIntegerField(default=0)  # of the newest accepted document
    digest = models.CharField(max_length=64, blank=True, default="")
    applied_version = models.PositiveBigIntegerField(default=0)  # the current one; 0: none yet
    issuers = models.JSONField(default=list)  # authorities whose documents are mounted in it, by the newest document
    document = models.BinaryField(default=b"")  # the newest signed document, zstd
    most_points = models.FloatField(default=5.0)  # a document that moves a target further is held for review
    most_entries = models.PositiveIntegerField(default=10_000)  # entries that one document may add, remove or change
    most_levels = models.PositiveIntegerField(default=32)
    # for entries that a version removes: whether their accounts count at the mount
    keep_usage = models.BooleanField(default=False)
    held = models.ForeignKey(
        "policies.ChangeSet", null=True, on_delete=models.SET_NULL, related_name="+"
    )  # the newest document, if it waits for a decision

    objects = OfCurrentPolicies["Mount"]()
    all_objects = models.Manager["Mount"]()  # including archived policies

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["policy", "entry_uid"], name="federation_mount_entry"),
            models.CheckConstraint(condition=Q(every_s__gte=10), name="federation_mount_every"),
        ]
        indexes = [models.Index(fields=["due_at"], name="federation_mount_due")]

    def __str__(self) -> str:
        return f"{self.issuer}, {self.publication}"


class Subscription(Remote):
    """Usage of an entry and its subtree at another site, which is a usage source of kind `peer`.

    The entry is a mount, whose uids both sites have, or one that this authority publishes and others mount.
    """

    feed = models.CharField(max_length=128)
    # of the entry at the other site, by the first document; a mount has a different uid
    root_uid = models.UUIDField(null=True)
    number = models.PositiveBigIntegerField(default=0)  # the number up to which it was read; 0: nothing yet
    source = models.OneToOneField("usage.Source", on_delete=models.PROTECT, related_name="subscription")
    capacity_cores = models.FloatField()  # agreed with the peer: more usage is held
    reported_capacity_cores = models.FloatField(
        null=True
    )  # as now declared; a larger one applies once a manager agrees
    # version of our publication that is active at that site
    enforced_version = models.PositiveBigIntegerField(null=True)
    running_held = models.BooleanField(default=False)  # running jobs exceed its capacity, so they don't count
    checked_number = models.PositiveIntegerField(default=0)  # revision last checked for out-of-scope entries
    # more than one document can hold, so it is fetched again immediately
    is_left_behind = models.BooleanField(default=False)
    # the newest known number of the feed; larger than `number` while there is more to read
    seen_number = models.PositiveBigIntegerField(default=0)
    # mark of that number in the lineage that is followed
    seen_mark = models.CharField(max_length=32, blank=True, default="")
    untold = models.JSONField(default=list)  # stored hours that a reading from 0 hasn't confirmed yet
    # uids that its documents name and the policy didn't have then; some may have appeared since
    unknown_uids = models.JSONField(default=list, db_default=[])

    objects = OfCurrentPolicies["Subscription"]()
    all_objects = models.Manager["Subscription"]()  # including archived policies

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
    """An hour in which a peer reports more than its capacity: it doesn't count until a manager decides."""

    subscription = models.ForeignKey(Subscription, on_delete=models.CASCADE, related_name="held_hours")
    hour_at = models.DateTimeField()
    number = models.PositiveBigIntegerField()  # of the document that reported it
    cpu_s = models.FloatField()  # as reported
    most_cpu_s = models.FloatField()  # allowed by the capacity
    found_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["subscription", "hour_at"], name="federation_heldhour_once")]

    def __str__(self) -> str:
        return f"{self.subscription_id} at {self.hour_at}"


class UsageFeed(models.Model):
    """Usage of an entry and its subtree from this site's own sources, sent to others by the uids of the entries."""

    policy = models.ForeignKey("policies.Policy", on_delete=models.CASCADE, related_name="usage_feeds")
    entry_uid = models.UUIDField()
    name = models.CharField(max_length=128, unique=True)
    capacity_cores = models.FloatField()  # as declared by this site
    sends_running = models.BooleanField(default=True)
    keeps_days = models.PositiveIntegerField(default=400)  # older hours aren't sent
    expires_after_s = models.PositiveIntegerField(default=86_400)
    is_open = models.BooleanField(default=False)
    number = models.PositiveBigIntegerField(default=0)  # of the newest published state
    running_digest = models.CharField(max_length=64, blank=True, default="")
    running_number = models.PositiveBigIntegerField(default=0)  # at which running jobs last changed
    basis = models.JSONField(default=dict)  # digest of its inputs at `number`: revision, mapping, watermarks …
    built_at = models.DateTimeField(null=True)  # when it was found up to date, as its documents say; null: not yet
    made_at = models.DateTimeField()

    objects = OfCurrentPolicies["UsageFeed"]()
    all_objects = models.Manager["UsageFeed"]()  # including archived policies

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["policy", "entry_uid"], name="federation_feed_entry"),
            models.CheckConstraint(condition=Q(capacity_cores__gt=0), name="federation_feed_capacity"),
        ]

    def __str__(self) -> str:
        return self.name


class FeedHour(models.Model):
    """A feed's hour as it was built: its rows, their digest, and the number since which it is unchanged."""

    feed = models.ForeignKey(UsageFeed, on_delete=models.CASCADE, related_name="hours")
    hour_at = models.DateTimeField()
    digest = models.CharField(max_length=64)
    number = models.PositiveBigIntegerField()
    n_rows = models.PositiveIntegerField(default=0)  # entries with usage in the hour, to bound the size of documents
    rows = models.BinaryField(default=b"")  # see usage_feeds/stored_rows.py

    class Meta:
        constraints = [models.UniqueConstraint(fields=["feed", "hour_at"], name="federation_feedhour_once")]
        indexes = [models.Index(fields=["feed", "number"], name="federation_feedhour_number")]

    def __str__(self) -> str:
        return f"{self.feed_id} at {self.hour_at}"


class FeedRunning(models.Model):
    """The running jobs of a feed as it was built; none for a feed that doesn't send them."""

    feed = models.OneToOneField(UsageFeed, on_delete=models.CASCADE, related_name="running")
    n_rows = models.PositiveIntegerField()
    rows = models.BinaryField()  # see usage_feeds/stored_rows.py

    def __str__(self) -> str:
        return f"running jobs of {self.feed_id}"


class FeedMark(models.Model):
    """A number of a feed and a random mark. If the number is reached again after a restore, it has a different mark."""

    feed = models.ForeignKey(UsageFeed, on_delete=models.CASCADE, related_name="marks")
    number = models.PositiveBigIntegerField()
    mark = models.UUIDField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["feed", "number"], name="federation_feedmark_once")]

    def __str__(self) -> str:
        return f"{self.feed_id} at {self.number}"


class Reading(models.Model):
    """The last reading of a publication or feed by one reader: the other direction of the table of peers."""

    publication = models.ForeignKey(Publication, null=True, on_delete=models.CASCADE, related_name="readings")
    feed = models.ForeignKey(UsageFeed, null=True, on_delete=models.CASCADE, related_name="readings")
    reader = models.CharField(max_length=128)  # the name of the token; "" for an open feed
    version = models.PositiveBigIntegerField()  # version of the publication, or number of the feed
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
        APPLIED = "applied", "Applied"
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
