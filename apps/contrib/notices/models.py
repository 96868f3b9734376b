"""Notice rules, notices, their marks, mail, webhooks with deliveries, and statements."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from apps.core.derived_state import in_tables

LONGEST_NOTICE_KIND = 32

DERIVED_STATE = (
    in_tables(
        "Notice",
        holds="what a rule found",
        key="kind, place, key",
        inputs="what the kind watches",
        range="from its opening to its close",
        ends="the next evaluation closes or updates it; age by the believed clock after its close",
    ),
    in_tables(
        "Statement",
        holds="figures of a closed month",
        key="policy, entry, month",
        inputs="the daily series of the month",
        range="one month that ended by the believed clock",
        ends="never: it is history",
    ),
)


class Rule(models.Model):
    """What is checked where, with its limits: in one policy, or, without one, on the site."""

    kind = models.CharField(max_length=LONGEST_NOTICE_KIND)
    policy = models.ForeignKey("policies.Policy", null=True, on_delete=models.CASCADE, related_name="notice_rules")
    is_on = models.BooleanField(default=True)
    terms = models.JSONField(default=dict)  # by name; missing ones are the kind's defaults
    version = models.PositiveIntegerField(default=1)  # for ETag
    changed_at = models.DateTimeField()
    author_name = models.CharField(max_length=256, blank=True, default="")

    class Meta:
        verbose_name_plural = "notice rules"
        constraints = [
            models.UniqueConstraint(fields=["kind", "policy"], name="notices_rule_once", nulls_distinct=False),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {'on' if self.is_on else 'off'}"


class Notice(models.Model):
    """One matter that needs attention, from its discovery until its cause is gone."""

    goes_with_owner: ClassVar[bool] = True

    class Level(models.TextChoices):
        INFO = "info", "Information"
        WARN = "warn", "Warning"
        BAD = "bad", "Action required"

    kind = models.CharField(max_length=LONGEST_NOTICE_KIND)
    key = models.CharField(max_length=200)  # subject: unique among open notices
    level = models.CharField(max_length=8, choices=Level.choices)
    facts = models.JSONField(default=dict)  # values of its sentence
    policy = models.ForeignKey("policies.Policy", null=True, on_delete=models.CASCADE, related_name="notices")
    entry_uid = models.UUIDField(null=True)
    source = models.ForeignKey("usage.Source", null=True, on_delete=models.CASCADE, related_name="notices")
    opened_at = models.DateTimeField()
    news_at = models.DateTimeField()  # when it opened or became worse, which makes it unread
    changed_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "key"], condition=Q(closed_at=None), name="notices_notice_open_once"
            ),
            models.CheckConstraint(
                condition=Q(closed_at=None) | Q(closed_at__gte=F("opened_at")), name="notices_notice_closed_after"
            ),
        ]
        indexes = [
            models.Index(fields=["-news_at"], condition=Q(closed_at=None), name="notices_notice_open"),
            models.Index(fields=["closed_at"], condition=~Q(closed_at=None), name="notices_notice_closed"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


class Mark(models.Model):
    """A user's private marks on a notice."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="notice_marks")
    notice = models.ForeignKey(Notice, on_delete=models.CASCADE, related_name="marks")
    read_at = models.DateTimeField(null=True)
    snoozed_until = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "notice"], name="notices_mark_once")]

    def __str__(self) -> str:
        return f"{self.user_id} on {self.notice_id}"


class Preference(models.Model):
    """A user's mail settings; without a row: daily, if the site sends mail."""

    class Interval(models.TextChoices):
        OFF = "off", "Never"
        AT_ONCE = "at_once", "At once"
        DAILY = "daily", "Once a day"
        WEEKLY = "weekly", "Once a week, on Mondays"

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="notice_preference")
    interval = models.CharField(max_length=8, choices=Interval.choices, default=Interval.DAILY)
    hour = models.PositiveSmallIntegerField(default=8)  # in FAIRSHARE_TIME_ZONE
    muted = ArrayField(models.CharField(max_length=LONGEST_NOTICE_KIND), default=list)  # kinds excluded from mail
    statements_since = models.DateTimeField(null=True)  # send statements of months closed later; None: send none

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(hour__lte=23), name="notices_preference_hour")]

    def __str__(self) -> str:
        return f"{self.user_id}: {self.interval}"


class Mail(models.Model):
    """One message to one user for one period, stored before it is sent so that there is only one."""

    class State(models.TextChoices):
        WAITING = "waiting", "To be sent"
        SENT = "sent", "Sent"
        EMPTY = "empty", "Nothing to send"
        FAILED = "failed", "Failed"

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="notice_mails")
    STATEMENT = "statement "  # prefix of the period of a statement

    # 2026-11-20, 2026-W47, the instant of an immediate message, or month and policy of a statement.
    period = models.CharField(max_length=40)
    listed = models.JSONField(default=list)  # keys of the news in it, so that later messages don't repeat them
    state = models.CharField(max_length=8, choices=State.choices, default=State.WAITING)
    attempts = models.PositiveSmallIntegerField(default=0)
    due_at = models.DateTimeField()
    error = models.CharField(max_length=256, blank=True, default="")
    created_at = models.DateTimeField()
    sent_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "period"], name="notices_mail_once")]
        indexes = [models.Index(fields=["due_at"], condition=Q(state="waiting"), name="notices_mail_due")]

    def __str__(self) -> str:
        return f"{self.user_id} {self.period} {self.state}"

    @property
    def is_statement(self) -> bool:
        return self.period.startswith(self.STATEMENT)


class Webhook(models.Model):
    """A URL that receives notices that its owner may see, at an entry and below it."""

    name = models.CharField(max_length=128)
    url = models.CharField(max_length=2048)
    secret = models.TextField()  # encrypted; shown once
    policy = models.ForeignKey("policies.Policy", null=True, on_delete=models.CASCADE, related_name="webhooks")
    entry_uid = models.UUIDField(null=True)
    kinds = ArrayField(models.CharField(max_length=LONGEST_NOTICE_KIND), default=list)  # empty: all
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="webhooks")
    is_on = models.BooleanField(default=True)
    off_because = models.CharField(max_length=256, blank=True, default="")  # why the service turned it off
    n_failed = models.PositiveIntegerField(default=0)  # abandoned deliveries in a row
    queued_until = models.DateTimeField()  # news up to this instant are stored as deliveries
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name


class Delivery(models.Model):
    """One event for one webhook and its result. `uid` is the same for every attempt."""

    class Event(models.TextChoices):
        OPENED = "opened", "Opened"
        CLOSED = "closed", "Closed"
        TEST = "test", "Test"

    class State(models.TextChoices):
        WAITING = "waiting", "To be sent"
        SENT = "sent", "Delivered"
        FAILED = "failed", "Failed"
        DROPPED = "dropped", "Not sent"

    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries")
    uid = models.UUIDField(default=uuid.uuid4, unique=True)
    event = models.CharField(max_length=8, choices=Event.choices)
    notice = models.ForeignKey(Notice, null=True, on_delete=models.CASCADE, related_name="deliveries")
    news_at = models.DateTimeField()  # identifies the news of the notice
    state = models.CharField(max_length=8, choices=State.choices, default=State.WAITING)
    attempts = models.PositiveSmallIntegerField(default=0)
    due_at = models.DateTimeField()
    status = models.PositiveSmallIntegerField(null=True)  # HTTP status of the last response
    error = models.CharField(max_length=256, blank=True, default="")
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["webhook", "notice", "event", "news_at"],
                name="notices_delivery_once",
                condition=Q(notice__isnull=False),
            ),
        ]
        indexes = [
            models.Index(fields=["due_at"], condition=Q(state="waiting"), name="notices_delivery_due"),
            models.Index(fields=["webhook", "-id"], name="notices_delivery_log"),
        ]

    def __str__(self) -> str:
        return f"{self.event} {self.uid} {self.state}"


class Statement(models.Model):
    """A group's month as it was when the month was closed. Later findings are shown as corrections."""

    goes_with_owner: ClassVar[bool] = True

    policy = models.ForeignKey("policies.Policy", on_delete=models.CASCADE, related_name="statements")
    entry_uid = models.UUIDField()
    month_on = models.DateField()  # its first day
    figures = models.JSONField()
    closed_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["policy", "entry_uid", "month_on"], name="notices_statement_once"),
            models.CheckConstraint(condition=Q(month_on__day=1), name="notices_statement_first_day"),
        ]

    def __str__(self) -> str:
        return f"{self.entry_uid} {self.month_on:%Y-%m}"
