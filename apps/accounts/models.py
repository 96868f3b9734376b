"""Tables of people, sessions, tokens, external accounts and the audit log."""

from __future__ import annotations

from typing import cast

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.contrib.postgres.fields import ArrayField
from django.contrib.sessions.backends.base import SessionBase
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models
from django.db.models import Q
from django.utils.module_loading import import_string

from apps.core.counts import counted
from apps.core.derived_state import in_tables

DERIVED_STATE = (
    in_tables(
        "IdempotentAnswer",
        holds="answers to requests with an Idempotency-Key",
        key="owner, purpose, key; digest of the body",
        inputs="the request and what it did",
        range="30 days by the believed clock",
        ends="age; it is history, no other state changes it",
    ),
    in_tables(
        "AuditCheck",
        holds="how far the audit log was verified",
        key="last row",
        inputs="rows up to it",
        range="rows up to it",
        ends="a later check; the whole log is verified again from time to time",
    ),
    in_tables(
        "ClockMark",
        holds="the last confirmed instant of the clock",
        key="one row",
        inputs="readings of the workers' and the database's clock",
        range="up to its instant",
        ends="the next reading",
    ),
)


class User(AbstractUser):
    """A person who signs in."""

    time_zone = models.CharField(max_length=64, blank=True, default="")

    class Meta(AbstractUser.Meta):  # type: ignore[name-defined, misc]  # missing in the stubs
        db_table = "accounts_user"

    def __str__(self) -> str:
        return self.get_full_name() or self.username


class Session(AbstractBaseSession):
    """A browser session with its user, so that users can list and end their own."""

    # no constraint: saving a session while its user is deleted ends the session instead of failing
    user = models.ForeignKey(User, null=True, on_delete=models.CASCADE, db_constraint=False, related_name="sessions")

    @classmethod
    def get_session_store_class(cls) -> type[SessionBase]:
        return cast(type[SessionBase], import_string(f"{settings.SESSION_ENGINE}.SessionStore"))


class PasswordReset(models.Model):
    """A requested mail with a link for setting a new password."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="password_resets")
    asked_at = models.DateTimeField()
    due_at = models.DateTimeField()  # time of the next attempt to send it
    attempts = models.PositiveSmallIntegerField(default=0)
    ended_at = models.DateTimeField(null=True)  # sent or abandoned

    class Meta:
        indexes = [models.Index(fields=["due_at"], condition=Q(ended_at=None), name="accounts_reset_due")]

    def __str__(self) -> str:
        return f"{self.user_id} {self.asked_at:%Y-%m-%d %H:%M}"


class Identity(models.Model):
    """A person's identity in another system: a subject of an OIDC issuer, an entry of a directory, a proxy's user
    name.
    """

    class Source(models.TextChoices):
        OIDC = "oidc", "OpenID Connect"
        LDAP = "ldap", "Directory"
        HEADER = "header", "Trusted header"

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="identities")
    source = models.CharField(max_length=16, choices=Source.choices)
    subject = models.CharField(max_length=1024)  # permanent identifier in that system, unlike the name
    linked_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "identities"
        constraints = [models.UniqueConstraint(fields=["source", "subject"], name="accounts_identity_once")]

    def __str__(self) -> str:
        return f"{self.source} {self.subject}"


class Account(models.Model):
    """The name under which jobs run, as a usage source or scheduler knows it."""

    namespace = models.CharField(max_length=128)
    user_name = models.CharField(max_length=256, blank=True, default="")
    group_name = models.CharField(max_length=256, blank=True, default="")
    dn = models.CharField(max_length=1024, blank=True, default="")
    fqan = models.CharField(max_length=512, blank=True, default="")
    project = models.CharField(max_length=256, blank=True, default="")
    person = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="accounts")
    first_seen_at = models.DateTimeField()
    is_pseudonym = models.BooleanField(default=False, db_default=False)  # user name and DN are pseudonyms
    is_of_partition = models.BooleanField(default=False, db_default=False)  # `project` is a partition of Slurm

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["namespace", "user_name", "group_name", "dn", "fqan", "project"], name="accounts_account_name"
            ),
            models.CheckConstraint(
                condition=~Q(user_name="") | ~Q(dn="") | ~Q(group_name=""), name="accounts_account_has_a_name"
            ),
        ]
        indexes = [
            models.Index(fields=["user_name"], name="accounts_account_user"),
            models.Index(fields=["person"], name="accounts_account_person"),
            models.Index(fields=["namespace"], condition=Q(is_pseudonym=True), name="accounts_account_hidden"),
            models.Index(fields=["namespace"], condition=Q(is_of_partition=True), name="accounts_account_partition"),
        ]

    def __str__(self) -> str:
        name = self.user_name or self.dn or self.group_name
        return f"{name} ({self.group_name})" if self.group_name and self.group_name != name else name


class Token(models.Model):
    """A hashed, scoped, expiring API key of a user: `fsh_<id>_<secret>`, shown once.

    It is bound to policies, sources and schedulers by name, not by foreign key: this room doesn't know them.
    """

    class Scope(models.TextChoices):
        SELF_READ = "self:read", "Read my own priorities and usage"
        PRIORITIES_READ = "priorities:read", "Look up priorities"
        USAGE_WRITE = "usage:write", "Send usage records"
        POLICIES_READ = "policies:read", "Read policies and their trees"
        POLICIES_WRITE = "policies:write", "Propose and publish changes"
        FEDERATION = "federation", "Exchange policies and usage with a peer"
        SCHEDULERS = "schedulers", "Carry priorities to a scheduler"
        ADMIN = "admin", "All rights of its owner"

    public_id = models.CharField(max_length=16, unique=True)
    name = models.CharField(max_length=128)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    scopes = ArrayField(models.CharField(max_length=32, choices=Scope.choices))
    policy_slug = models.CharField(max_length=64, blank=True, default="")
    subtree_uid = models.UUIDField(null=True, blank=True)
    source_slug = models.CharField(max_length=64, blank=True, default="")
    scheduler_name = models.CharField(max_length=64, blank=True, default="", db_default="")
    digest = models.BinaryField(max_length=32)
    pepper_version = models.PositiveSmallIntegerField(default=0)
    last_four = models.CharField(max_length=4)
    previous_digest = models.BinaryField(max_length=32, null=True, blank=True)
    previous_until = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(expires_at__gt=models.F("created_at")), name="accounts_token_expires"),
            models.CheckConstraint(condition=~Q(scopes=[]), name="accounts_token_has_a_scope"),
        ]

    def __str__(self) -> str:
        return f"{self.name} (fsh_{self.public_id}_…{self.last_four})"


class IdempotentAnswer(models.Model):
    """The stored answer to a request with an Idempotency-Key, returned when the request is repeated."""

    scope = models.CharField(max_length=512)  # owner and purpose of the key
    key = models.CharField(max_length=128)
    body_sha256 = models.CharField(max_length=64)
    answer = models.JSONField()
    created_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["scope", "key"], name="accounts_idempotentanswer_key")]

    def __str__(self) -> str:
        return self.key


class AuditEvent(models.Model):
    """A row of the append-only, hash-chained log. The database rejects UPDATE, DELETE and TRUNCATE."""

    class Outcome(models.TextChoices):
        DONE = "done", "Done"
        REFUSED = "refused", "Refused"
        FAILED = "failed", "Failed"

    id = models.BigIntegerField(primary_key=True)  # without gaps, so that missing rows are detected
    at = models.DateTimeField()
    actor_id = models.BigIntegerField(null=True)
    actor_name = models.CharField(max_length=256)
    verb = models.CharField(max_length=64)
    outcome = models.CharField(max_length=16, choices=Outcome.choices, default=Outcome.DONE)
    policy_slug = models.CharField(max_length=64, blank=True, default="")
    entry_uid = models.UUIDField(null=True)
    subject = models.CharField(max_length=512, blank=True, default="")
    reason = models.TextField(blank=True, default="")
    details = models.JSONField(default=dict)
    via = models.CharField(max_length=16)
    request_id = models.CharField(max_length=64, blank=True, default="")
    address = models.GenericIPAddressField(null=True)
    token_prefix = models.CharField(max_length=32, blank=True, default="")
    previous_hash = models.BinaryField(max_length=32)
    hash = models.BinaryField(max_length=32)

    class Meta:
        indexes = [
            models.Index(fields=["policy_slug", "entry_uid", "-id"], name="accounts_audit_entry"),
            models.Index(fields=["actor_id", "-id"], name="accounts_audit_actor"),
        ]

    def __str__(self) -> str:
        return f"{self.id}: {self.actor_name} {self.verb} {self.subject}"


class AuditCheck(models.Model):
    """The result of one check of the whole chain. Later checks also compare the rows with it."""

    checked_at = models.DateTimeField()
    duration_s = models.FloatField()
    n_rows = models.BigIntegerField()  # number of valid rows, in order
    head_hash = models.BinaryField(max_length=32)  # hash of the last valid row
    broken_id = models.BigIntegerField(null=True)  # first invalid row; null if all are valid
    problem = models.TextField(blank=True, default="")

    class Meta:
        indexes = [models.Index(fields=["broken_id", "-n_rows"], name="accounts_auditcheck_good")]

    def __str__(self) -> str:
        return self.problem or f"{counted(self.n_rows, 'row')} unbroken"


class ClockMark(models.Model):
    """The last instant of the clock that is believed, and since when it has been ahead of it; a single row."""

    ONLY = 1

    at = models.DateTimeField()
    ahead_since = models.DateTimeField(null=True)  # the first and the last reading of a jump
    ahead_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.at:%FT%TZ}"
