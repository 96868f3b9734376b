import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from apps.core.create_tables import create_tables


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0001_initial"),
        ("policies", "0001_initial"),
        ("usage", "0001_initial"),
    ]

    operations = create_tables(
        migrations.CreateModel(
            name="SiteKey",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField(unique=True)),
                ("fingerprint", models.CharField(max_length=64, unique=True)),
                ("public", models.BinaryField()),
                ("sealed", models.TextField()),
                ("rotation_signature", models.BinaryField(blank=True, default=b"")),
                ("made_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Mount",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("entry_uid", models.UUIDField()),
                ("url", models.URLField(max_length=2048)),
                ("issuer", models.CharField(max_length=128)),
                ("fingerprint", models.CharField(max_length=64)),
                ("sealed_token", models.TextField(blank=True, default="")),
                ("expires_at", models.DateTimeField(null=True)),
                ("issued_at", models.DateTimeField(null=True)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("active", "Fetched on a schedule"),
                            ("paused", "Not fetched until resumed"),
                            ("frozen", "Fetched, but not applied"),
                            ("blocked", "History forked or key changed: an administrator must decide"),
                        ],
                        default="active",
                        max_length=16,
                    ),
                ),
                ("every_s", models.PositiveIntegerField(default=300)),
                ("due_at", models.DateTimeField(null=True)),
                ("max_age_s", models.PositiveIntegerField(default=86400)),
                (
                    "stale_action",
                    models.CharField(
                        choices=[
                            ("keep", "Keep the current version"),
                            ("freeze", "Freeze until a decision"),
                            ("local", "Use local usage only until contact returns"),
                        ],
                        default="keep",
                        max_length=16,
                    ),
                ),
                ("most_bytes", models.PositiveIntegerField(default=33554432)),
                ("etag", models.CharField(blank=True, default="", max_length=256)),
                ("fetched_at", models.DateTimeField(null=True)),
                ("good_at", models.DateTimeField(null=True)),
                ("error_code", models.CharField(blank=True, default="", max_length=64)),
                ("error", models.TextField(blank=True, default="")),
                ("n_failed", models.PositiveIntegerField(default=0)),
                ("made_at", models.DateTimeField()),
                ("publication", models.CharField(max_length=128)),
                ("version", models.PositiveBigIntegerField(default=0)),
                ("digest", models.CharField(blank=True, default="", max_length=64)),
                ("applied_version", models.PositiveBigIntegerField(default=0)),
                ("issuers", models.JSONField(default=list)),
                ("document", models.BinaryField(default=b"")),
                ("most_points", models.FloatField(default=5.0)),
                ("most_entries", models.PositiveIntegerField(default=10000)),
                ("most_levels", models.PositiveIntegerField(default=32)),
                ("keep_usage", models.BooleanField(default=False)),
                (
                    "held",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="policies.changeset",
                    ),
                ),
                (
                    "made_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="%(class)ss", to="policies.policy"
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["due_at"], name="federation_mount_due")],
                "constraints": [
                    models.UniqueConstraint(fields=("policy", "entry_uid"), name="federation_mount_entry"),
                    models.CheckConstraint(condition=models.Q(("every_s__gte", 10)), name="federation_mount_every"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Publication",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("entry_uid", models.UUIDField()),
                ("name", models.CharField(max_length=128, unique=True)),
                ("expires_after_s", models.PositiveIntegerField(default=604800)),
                ("is_open", models.BooleanField(default=False)),
                ("made_at", models.DateTimeField()),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="publications", to="policies.policy"
                    ),
                ),
                ("least_version", models.PositiveBigIntegerField(db_default=1, default=1)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("policy", "entry_uid"), name="federation_publication_entry"),
                    models.CheckConstraint(
                        condition=models.Q(("expires_after_s__gte", 60)), name="federation_publication_expires"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="PublishedDocument",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("version", models.PositiveBigIntegerField()),
                ("digest", models.CharField(max_length=64)),
                ("content_digest", models.CharField(max_length=64)),
                ("revision_number", models.PositiveIntegerField()),
                ("n_entries", models.PositiveIntegerField()),
                ("issued_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("key_fingerprint", models.CharField(max_length=64)),
                ("basis", models.CharField(blank=True, default="", max_length=64)),
                ("data", models.BinaryField()),
                (
                    "publication",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="documents",
                        to="federation.publication",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("publication", "version"), name="federation_published_version")
                ],
            },
        ),
        migrations.CreateModel(
            name="Subscription",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("entry_uid", models.UUIDField()),
                ("url", models.URLField(max_length=2048)),
                ("issuer", models.CharField(max_length=128)),
                ("fingerprint", models.CharField(max_length=64)),
                ("sealed_token", models.TextField(blank=True, default="")),
                ("expires_at", models.DateTimeField(null=True)),
                ("issued_at", models.DateTimeField(null=True)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("active", "Fetched on a schedule"),
                            ("paused", "Not fetched until resumed"),
                            ("frozen", "Fetched, but not applied"),
                            ("blocked", "History forked or key changed: an administrator must decide"),
                        ],
                        default="active",
                        max_length=16,
                    ),
                ),
                ("every_s", models.PositiveIntegerField(default=300)),
                ("due_at", models.DateTimeField(null=True)),
                ("max_age_s", models.PositiveIntegerField(default=86400)),
                (
                    "stale_action",
                    models.CharField(
                        choices=[
                            ("keep", "Keep the current version"),
                            ("freeze", "Freeze until a decision"),
                            ("local", "Use local usage only until contact returns"),
                        ],
                        default="keep",
                        max_length=16,
                    ),
                ),
                ("most_bytes", models.PositiveIntegerField(default=33554432)),
                ("etag", models.CharField(blank=True, default="", max_length=256)),
                ("fetched_at", models.DateTimeField(null=True)),
                ("good_at", models.DateTimeField(null=True)),
                ("error_code", models.CharField(blank=True, default="", max_length=64)),
                ("error", models.TextField(blank=True, default="")),
                ("n_failed", models.PositiveIntegerField(default=0)),
                ("made_at", models.DateTimeField()),
                ("feed", models.CharField(max_length=128)),
                ("root_uid", models.UUIDField(null=True)),
                ("number", models.PositiveBigIntegerField(default=0)),
                ("capacity_cores", models.FloatField()),
                ("reported_capacity_cores", models.FloatField(null=True)),
                ("enforced_version", models.PositiveBigIntegerField(null=True)),
                ("running_held", models.BooleanField(default=False)),
                ("checked_number", models.PositiveIntegerField(default=0)),
                ("is_left_behind", models.BooleanField(default=False)),
                ("seen_number", models.PositiveBigIntegerField(default=0)),
                ("seen_mark", models.CharField(blank=True, default="", max_length=32)),
                ("untold", models.JSONField(default=list)),
                (
                    "made_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="%(class)ss", to="policies.policy"
                    ),
                ),
                (
                    "source",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT, related_name="subscription", to="usage.source"
                    ),
                ),
                ("unknown_uids", models.JSONField(db_default=[], default=list)),
            ],
            options={
                "indexes": [models.Index(fields=["due_at"], name="federation_subscription_due")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("policy", "entry_uid", "issuer"), name="federation_subscription_entry"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("every_s__gte", 10)), name="federation_subscription_every"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("capacity_cores__gt", 0)), name="federation_subscription_capacity"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="HeldHour",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("hour_at", models.DateTimeField()),
                ("number", models.PositiveBigIntegerField()),
                ("cpu_s", models.FloatField()),
                ("most_cpu_s", models.FloatField()),
                ("found_at", models.DateTimeField()),
                (
                    "subscription",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="held_hours",
                        to="federation.subscription",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("subscription", "hour_at"), name="federation_heldhour_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="Fetch",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField()),
                (
                    "outcome",
                    models.CharField(
                        choices=[
                            ("same", "Unchanged"),
                            ("applied", "Applied"),
                            ("held", "Held for review"),
                            ("frozen", "Fetched, not applied"),
                            ("refused", "Refused"),
                            ("unreachable", "No answer"),
                        ],
                        max_length=16,
                    ),
                ),
                ("version", models.PositiveBigIntegerField(null=True)),
                ("n_bytes", models.PositiveBigIntegerField(default=0)),
                ("duration_s", models.FloatField(default=0)),
                ("code", models.CharField(blank=True, default="", max_length=64)),
                ("message", models.TextField(blank=True, default="")),
                (
                    "mount",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="fetches",
                        to="federation.mount",
                    ),
                ),
                (
                    "subscription",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="fetches",
                        to="federation.subscription",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["mount", "-id"], name="federation_fetch_newest"),
                    models.Index(fields=["subscription", "-id"], name="federation_fetch_newest_usage"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("mount__isnull", True), ("subscription__isnull", True), _connector="XOR"),
                        name="federation_fetch_of_one",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="UsageFeed",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("entry_uid", models.UUIDField()),
                ("name", models.CharField(max_length=128, unique=True)),
                ("capacity_cores", models.FloatField()),
                ("sends_running", models.BooleanField(default=True)),
                ("keeps_days", models.PositiveIntegerField(default=400)),
                ("expires_after_s", models.PositiveIntegerField(default=86400)),
                ("is_open", models.BooleanField(default=False)),
                ("number", models.PositiveBigIntegerField(default=0)),
                ("running_digest", models.CharField(blank=True, default="", max_length=64)),
                ("running_number", models.PositiveBigIntegerField(default=0)),
                ("basis", models.JSONField(default=dict)),
                ("made_at", models.DateTimeField()),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="usage_feeds", to="policies.policy"
                    ),
                ),
                ("built_at", models.DateTimeField(null=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("policy", "entry_uid"), name="federation_feed_entry"),
                    models.CheckConstraint(
                        condition=models.Q(("capacity_cores__gt", 0)), name="federation_feed_capacity"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Reading",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("reader", models.CharField(max_length=128)),
                ("version", models.PositiveBigIntegerField()),
                ("at", models.DateTimeField()),
                (
                    "publication",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="readings",
                        to="federation.publication",
                    ),
                ),
                (
                    "feed",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="readings",
                        to="federation.usagefeed",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("publication", "feed", "reader"), name="federation_reading_once", nulls_distinct=False
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("publication__isnull", True), ("feed__isnull", True), _connector="XOR"),
                        name="federation_reading_of_one",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="FeedMark",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveBigIntegerField()),
                ("mark", models.UUIDField()),
                (
                    "feed",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="marks", to="federation.usagefeed"
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("feed", "number"), name="federation_feedmark_once")],
            },
        ),
        migrations.CreateModel(
            name="FeedHour",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("hour_at", models.DateTimeField()),
                ("digest", models.CharField(max_length=64)),
                ("number", models.PositiveBigIntegerField()),
                ("n_rows", models.PositiveIntegerField(default=0)),
                (
                    "feed",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="hours", to="federation.usagefeed"
                    ),
                ),
                ("rows", models.BinaryField(default=b"")),
            ],
            options={
                "indexes": [models.Index(fields=["feed", "number"], name="federation_feedhour_number")],
                "constraints": [models.UniqueConstraint(fields=("feed", "hour_at"), name="federation_feedhour_once")],
            },
        ),
        migrations.CreateModel(
            name="FeedRunning",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("n_rows", models.PositiveIntegerField()),
                ("rows", models.BinaryField()),
                (
                    "feed",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="running", to="federation.usagefeed"
                    ),
                ),
            ],
        ),
    )
