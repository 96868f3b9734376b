import django.contrib.auth.models
import django.contrib.auth.validators
import django.contrib.postgres.fields
import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

from apps.core.create_tables import create_tables

# The log is append-only for everybody.
_AUDIT_GUARD = """
CREATE FUNCTION accounts_audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is append-only: % refused', TG_OP USING ERRCODE = 'restrict_violation';
END
$$;
CREATE TRIGGER accounts_audit_append_only BEFORE UPDATE OR DELETE ON accounts_auditevent
    FOR EACH ROW EXECUTE FUNCTION accounts_audit_refuse();
CREATE TRIGGER accounts_audit_no_truncate BEFORE TRUNCATE ON accounts_auditevent
    FOR EACH STATEMENT EXECUTE FUNCTION accounts_audit_refuse();
"""


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
    ]

    operations = create_tables(
        migrations.CreateModel(
            name="User",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("password", models.CharField(max_length=128, verbose_name="password")),
                ("last_login", models.DateTimeField(blank=True, null=True, verbose_name="last login")),
                (
                    "is_superuser",
                    models.BooleanField(
                        default=False,
                        help_text="Designates that this user has all permissions without explicitly assigning them.",
                        verbose_name="superuser status",
                    ),
                ),
                (
                    "username",
                    models.CharField(
                        error_messages={"unique": "A user with that username already exists."},
                        help_text="Required. 150 characters or fewer. Letters, digits and @/./+/-/_ only.",
                        max_length=150,
                        unique=True,
                        validators=[django.contrib.auth.validators.UnicodeUsernameValidator()],
                        verbose_name="username",
                    ),
                ),
                ("first_name", models.CharField(blank=True, max_length=150, verbose_name="first name")),
                ("last_name", models.CharField(blank=True, max_length=150, verbose_name="last name")),
                ("email", models.EmailField(blank=True, max_length=254, verbose_name="email address")),
                (
                    "is_staff",
                    models.BooleanField(
                        default=False,
                        help_text="Designates whether the user can log into this admin site.",
                        verbose_name="staff status",
                    ),
                ),
                (
                    "is_active",
                    models.BooleanField(
                        default=True,
                        help_text="Designates whether this user should be treated as active. Unselect this instead of deleting accounts.",
                        verbose_name="active",
                    ),
                ),
                ("date_joined", models.DateTimeField(default=django.utils.timezone.now, verbose_name="date joined")),
                ("time_zone", models.CharField(blank=True, default="", max_length=64)),
                (
                    "groups",
                    models.ManyToManyField(
                        blank=True,
                        help_text="The groups this user belongs to. A user will get all permissions granted to each of their groups.",
                        related_name="user_set",
                        related_query_name="user",
                        to="auth.group",
                        verbose_name="groups",
                    ),
                ),
                (
                    "user_permissions",
                    models.ManyToManyField(
                        blank=True,
                        help_text="Specific permissions for this user.",
                        related_name="user_set",
                        related_query_name="user",
                        to="auth.permission",
                        verbose_name="user permissions",
                    ),
                ),
            ],
            options={
                "verbose_name": "user",
                "verbose_name_plural": "users",
                "db_table": "accounts_user",
                "abstract": False,
            },
            managers=[
                ("objects", django.contrib.auth.models.UserManager()),
            ],
        ),
        migrations.CreateModel(
            name="AuditCheck",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("checked_at", models.DateTimeField()),
                ("duration_s", models.FloatField()),
                ("n_rows", models.BigIntegerField()),
                ("head_hash", models.BinaryField(max_length=32)),
                ("broken_id", models.BigIntegerField(null=True)),
                ("problem", models.TextField(blank=True, default="")),
            ],
            options={
                "indexes": [models.Index(fields=["broken_id", "-n_rows"], name="accounts_auditcheck_good")],
            },
        ),
        migrations.CreateModel(
            name="AuditEvent",
            fields=[
                ("id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("at", models.DateTimeField()),
                ("actor_id", models.BigIntegerField(null=True)),
                ("actor_name", models.CharField(max_length=256)),
                ("verb", models.CharField(max_length=64)),
                (
                    "outcome",
                    models.CharField(
                        choices=[("done", "Done"), ("refused", "Refused"), ("failed", "Failed")],
                        default="done",
                        max_length=16,
                    ),
                ),
                ("policy_slug", models.CharField(blank=True, default="", max_length=64)),
                ("entry_uid", models.UUIDField(null=True)),
                ("subject", models.CharField(blank=True, default="", max_length=512)),
                ("reason", models.TextField(blank=True, default="")),
                ("details", models.JSONField(default=dict)),
                ("via", models.CharField(max_length=16)),
                ("request_id", models.CharField(blank=True, default="", max_length=64)),
                ("address", models.GenericIPAddressField(null=True)),
                ("token_prefix", models.CharField(blank=True, default="", max_length=32)),
                ("previous_hash", models.BinaryField(max_length=32)),
                ("hash", models.BinaryField(max_length=32)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["policy_slug", "entry_uid", "-id"], name="accounts_audit_entry"),
                    models.Index(fields=["actor_id", "-id"], name="accounts_audit_actor"),
                ],
            },
        ),
        migrations.CreateModel(
            name="IdempotentAnswer",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("scope", models.CharField(max_length=512)),
                ("key", models.CharField(max_length=128)),
                ("body_sha256", models.CharField(max_length=64)),
                ("answer", models.JSONField()),
                ("created_at", models.DateTimeField(db_index=True)),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("scope", "key"), name="accounts_idempotentanswer_key")],
            },
        ),
        migrations.CreateModel(
            name="Session",
            fields=[
                (
                    "session_key",
                    models.CharField(max_length=40, primary_key=True, serialize=False, verbose_name="session key"),
                ),
                ("session_data", models.TextField(verbose_name="session data")),
                ("expire_date", models.DateTimeField(db_index=True, verbose_name="expire date")),
                (
                    "user",
                    models.ForeignKey(
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="sessions",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name": "session",
                "verbose_name_plural": "sessions",
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="Account",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("namespace", models.CharField(max_length=128)),
                ("user_name", models.CharField(blank=True, default="", max_length=256)),
                ("group_name", models.CharField(blank=True, default="", max_length=256)),
                ("dn", models.CharField(blank=True, default="", max_length=1024)),
                ("fqan", models.CharField(blank=True, default="", max_length=512)),
                ("project", models.CharField(blank=True, default="", max_length=256)),
                ("first_seen_at", models.DateTimeField()),
                ("is_pseudonym", models.BooleanField(db_default=False, default=False)),
                (
                    "person",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="accounts",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("is_of_partition", models.BooleanField(db_default=False, default=False)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["user_name"], name="accounts_account_user"),
                    models.Index(fields=["person"], name="accounts_account_person"),
                    models.Index(
                        condition=models.Q(("is_pseudonym", True)), fields=["namespace"], name="accounts_account_hidden"
                    ),
                    models.Index(
                        condition=models.Q(("is_of_partition", True)),
                        fields=["namespace"],
                        name="accounts_account_partition",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("namespace", "user_name", "group_name", "dn", "fqan", "project"),
                        name="accounts_account_name",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("user_name", ""), _negated=True),
                            models.Q(("dn", ""), _negated=True),
                            models.Q(("group_name", ""), _negated=True),
                            _connector="OR",
                        ),
                        name="accounts_account_has_a_name",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Identity",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "source",
                    models.CharField(
                        choices=[("oidc", "OpenID Connect"), ("ldap", "Directory"), ("header", "Trusted header")],
                        max_length=16,
                    ),
                ),
                ("subject", models.CharField(max_length=1024)),
                ("linked_at", models.DateTimeField()),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="identities",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "identities",
                "constraints": [models.UniqueConstraint(fields=("source", "subject"), name="accounts_identity_once")],
            },
        ),
        migrations.CreateModel(
            name="PasswordReset",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("asked_at", models.DateTimeField()),
                ("due_at", models.DateTimeField()),
                ("attempts", models.PositiveSmallIntegerField(default=0)),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="password_resets",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(condition=models.Q(("ended_at", None)), fields=["due_at"], name="accounts_reset_due")
                ],
            },
        ),
        migrations.CreateModel(
            name="Token",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("public_id", models.CharField(max_length=16, unique=True)),
                ("name", models.CharField(max_length=128)),
                (
                    "scopes",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(
                            choices=[
                                ("self:read", "Read my own priorities and usage"),
                                ("priorities:read", "Look up priorities"),
                                ("usage:write", "Send usage records"),
                                ("policies:read", "Read policies and their trees"),
                                ("policies:write", "Propose and publish changes"),
                                ("federation", "Exchange policies and usage with a peer"),
                                ("schedulers", "Carry priorities to a scheduler"),
                                ("admin", "All rights of its owner"),
                            ],
                            max_length=32,
                        ),
                        size=None,
                    ),
                ),
                ("policy_slug", models.CharField(blank=True, default="", max_length=64)),
                ("subtree_uid", models.UUIDField(blank=True, null=True)),
                ("source_slug", models.CharField(blank=True, default="", max_length=64)),
                ("digest", models.BinaryField(max_length=32)),
                ("pepper_version", models.PositiveSmallIntegerField(default=0)),
                ("last_four", models.CharField(max_length=4)),
                ("previous_digest", models.BinaryField(blank=True, max_length=32, null=True)),
                ("previous_until", models.DateTimeField(blank=True, null=True)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("last_used_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="tokens", to=settings.AUTH_USER_MODEL
                    ),
                ),
                ("scheduler_name", models.CharField(blank=True, db_default="", default="", max_length=64)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("expires_at__gt", models.F("created_at"))), name="accounts_token_expires"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("scopes", []), _negated=True), name="accounts_token_has_a_scope"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ClockMark",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField()),
                ("ahead_since", models.DateTimeField(null=True)),
                ("ahead_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.RunSQL(_AUDIT_GUARD),
    )
