import django.db.models.deletion
import django.db.models.manager
from django.conf import settings
from django.db import migrations, models

import apps.usage.columns
from apps.core.create_tables import create_tables

# Records lie in partitions by the time of submission. Wide columns come first, so that none is padded. Ids are taken a
# thousand at a time: one by one, they cost as much as writing the rows.
_RECORDS = """
CREATE SEQUENCE usage_record_ids AS bigint CACHE 1000;
CREATE TABLE usage_record (
    id bigint NOT NULL DEFAULT nextval('usage_record_ids'),
    key_hash bigint NOT NULL,
    submit_at timestamptz NOT NULL,
    start_at timestamptz,
    end_at timestamptz,
    revision bigint,
    cpus double precision,
    gpus double precision,
    nodes double precision,
    mem_mb double precision,
    billing double precision,
    requested_s double precision,
    seen_at timestamptz,
    source_id integer NOT NULL,
    account_id integer NOT NULL,
    job_class_id integer NOT NULL,
    job_number integer NOT NULL,
    restart integer,
    run_id integer,
    state smallint NOT NULL,
    is_charge boolean NOT NULL DEFAULT false,
    cluster varchar(128) NOT NULL DEFAULT '',
    job varchar(128) NOT NULL,
    array_task varchar(64) NOT NULL DEFAULT '',
    site varchar(128) NOT NULL,
    note varchar(64) NOT NULL DEFAULT '',
    kinds jsonb,
    sluid bigint
) PARTITION BY RANGE (submit_at);
ALTER SEQUENCE usage_record_ids OWNED BY usage_record.id;
"""

_MAKE_PARTITION = """
CREATE FUNCTION usage_make_partition(parent regclass, leaf text, from_at timestamptz, to_at timestamptz)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- One at a time; readers and writers of other partitions go on.
    EXECUTE format('LOCK TABLE %s IN SHARE UPDATE EXCLUSIVE MODE', parent);
    IF to_regclass(quote_ident(leaf)) IS NOT NULL THEN
        RETURN;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE %s INCLUDING DEFAULTS)', leaf, parent);
    -- Equal keys are of one submission, and so in one partition: the key needs no time.
    EXECUTE format('CREATE UNIQUE INDEX %I ON %I (source_id, job_number, key_hash)', leaf || '_key', leaf);
    EXECUTE format('CREATE INDEX %I ON %I (account_id)', leaf || '_account', leaf);
    EXECUTE format('CREATE INDEX %I ON %I (source_id) WHERE state <> 2', leaf || '_open', leaf);
    -- The few records that the page of data quality lists: without it, it reads all of a month.
    EXECUTE format('CREATE INDEX %I ON %I (end_at) WHERE note = ''vanished'' OR (cpus = 0 AND gpus = 0)',
        leaf || '_odd', leaf);
    -- Records come in the order of ids and time, more or less: a few kilobytes find those of a day or a span of ids.
    EXECUTE format('CREATE INDEX %I ON %I USING brin (id, submit_at, start_at, end_at)'
        ' WITH (pages_per_range = 32, autosummarize = on)', leaf || '_order', leaf);
    EXECUTE format('ALTER TABLE %s ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', parent, leaf,
        COALESCE(quote_literal(from_at), 'MINVALUE'), COALESCE(quote_literal(to_at), 'MAXVALUE'));
END $$
"""

# The other half of a foreign key: what comes in is checked by its writer, once a batch (see records/record_rows).
_GUARDS = """
CREATE FUNCTION usage_keep_referenced() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    is_used boolean;
BEGIN
    EXECUTE format('SELECT EXISTS (SELECT FROM usage_record WHERE %1$I = $1)'
        ' OR EXISTS (SELECT FROM usage_bucket WHERE %1$I = $1)', TG_ARGV[0]) INTO is_used USING OLD.id;
    IF is_used THEN
        RAISE EXCEPTION 'Usage refers to row % of %.', OLD.id, TG_TABLE_NAME
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME;
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER usage_keeps_source BEFORE DELETE ON usage_source
    FOR EACH ROW EXECUTE FUNCTION usage_keep_referenced('source_id');
CREATE TRIGGER usage_keeps_account BEFORE DELETE ON accounts_account
    FOR EACH ROW EXECUTE FUNCTION usage_keep_referenced('account_id');
CREATE TRIGGER usage_keeps_job_class BEFORE DELETE ON usage_jobclass
    FOR EACH ROW EXECUTE FUNCTION usage_keep_referenced('job_class_id');
"""


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0001_initial"),
        ("runs", "0001_initial"),
    ]

    operations = create_tables(
        migrations.CreateModel(
            name="Source",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("slug", models.SlugField(max_length=64, unique=True)),
                ("name", models.CharField(max_length=128)),
                ("origin", models.CharField(blank=True, default="", max_length=128)),
                ("namespace", models.CharField(max_length=128)),
                ("site", models.CharField(blank=True, default="", max_length=128)),
                ("cluster", models.CharField(blank=True, default="", max_length=128)),
                ("time_zone", models.CharField(blank=True, default="", max_length=64)),
                ("expected_every_s", models.PositiveIntegerField(blank=True, null=True)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("push", "Push: API or upload"),
                            ("directory", "A watched directory"),
                            ("command", "A command, on a schedule"),
                            ("slurm-rest", "Slurm's REST daemon"),
                            ("peer", "Another site's feed: hourly totals by entry, no records"),
                        ],
                        db_default="push",
                        default="push",
                        max_length=16,
                    ),
                ),
                ("collecting", models.JSONField(blank=True, db_default={}, default=dict)),
                ("collect_every_s", models.PositiveIntegerField(blank=True, null=True)),
                ("collect_due_at", models.DateTimeField(blank=True, null=True)),
                ("collected_at", models.DateTimeField(blank=True, null=True)),
                ("collect_error", models.TextField(blank=True, db_default="", default="")),
                ("is_paused", models.BooleanField(db_default=False, default=False)),
                ("cursor", models.JSONField(blank=True, db_default={}, default=dict)),
                ("skew_tolerance_s", models.PositiveIntegerField(db_default=300, default=300)),
                ("skew_s", models.FloatField(blank=True, null=True)),
                ("sealed_before_at", models.DateTimeField(blank=True, null=True)),
                ("keep_records_days", models.PositiveIntegerField(blank=True, null=True)),
                ("names_people", models.BooleanField(db_default=False, default=False)),
                ("is_sample", models.BooleanField(default=False)),
                ("watermark", models.BigIntegerField(default=0)),
                ("last_record_end_at", models.DateTimeField(blank=True, null=True)),
                ("last_submit_at", models.DateTimeField(blank=True, null=True)),
                ("last_received_at", models.DateTimeField(blank=True, null=True)),
                ("n_records", models.BigIntegerField(default=0)),
                ("created_at", models.DateTimeField()),
                ("archived_at", models.DateTimeField(blank=True, null=True)),
                ("billing_weights", models.JSONField(blank=True, db_default={}, default=dict)),
                ("first_submit_at", models.DateTimeField(blank=True, null=True)),
                ("first_wait_at", models.DateTimeField(blank=True, null=True)),
                ("longest_run_s", models.PositiveIntegerField(blank=True, null=True)),
                ("listed_at", models.DateTimeField(blank=True, null=True)),
            ],
            managers=[
                ("all_objects", django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name="Import",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("format", models.CharField(max_length=32)),
                ("file_name", models.CharField(max_length=255)),
                ("stored_path", models.CharField(blank=True, default="", max_length=512)),
                ("n_bytes", models.BigIntegerField()),
                ("sha256", models.CharField(max_length=64)),
                ("time_zone", models.CharField(blank=True, default="", max_length=64)),
                ("dry_run", models.BooleanField(default=False)),
                ("all_or_nothing", models.BooleanField(db_default=False, default=False)),
                ("undone_at", models.DateTimeField(blank=True, null=True)),
                ("first_start_at", models.DateTimeField(null=True)),
                ("last_end_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField()),
                (
                    "owner",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "run",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT, related_name="usage_import", to="runs.run"
                    ),
                ),
                (
                    "undone_run",
                    models.OneToOneField(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="undone_import",
                        to="runs.run",
                    ),
                ),
                (
                    "source",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="imports", to="usage.source"
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["source", "-id"], name="usage_import_newest")],
            },
        ),
        migrations.CreateModel(
            name="JobClass",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("queue", models.CharField(blank=True, default="", max_length=128)),
                ("partition", models.CharField(blank=True, default="", max_length=128)),
                ("qos", models.CharField(blank=True, default="", max_length=128)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("queue", "partition", "qos"), name="usage_jobclass_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="ChangedHour",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("watermark", models.BigIntegerField()),
                ("from_hour_at", models.DateTimeField()),
                (
                    "source",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="usage.source"
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["source", "from_hour_at"], name="usage_changed_hour")],
            },
        ),
        migrations.CreateModel(
            name="Bucket",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "hour_at",
                        "source_id",
                        "account_id",
                        "job_class_id",
                        "site",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("cpu_s", models.FloatField(default=0)),
                ("gpu_s", models.FloatField(default=0)),
                ("mem_gb_s", models.FloatField(default=0)),
                ("node_s", models.FloatField(default=0)),
                ("billing", models.FloatField(default=0)),
                ("jobs", models.FloatField(default=0)),
                ("hour_at", models.DateTimeField()),
                (
                    "source",
                    apps.usage.columns.Int4ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        to="usage.source",
                    ),
                ),
                (
                    "account",
                    apps.usage.columns.Int4ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        to="accounts.account",
                    ),
                ),
                (
                    "job_class",
                    apps.usage.columns.Int4ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        to="usage.jobclass",
                    ),
                ),
                ("site", models.CharField(blank=True, default="", max_length=128)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("cpu_s__gte", 0)), name="usage_bucket_cpu_not_negative")
                ],
            },
        ),
        migrations.CreateModel(
            name="SourceDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("received_on", models.DateField()),
                ("n_new", models.BigIntegerField(default=0)),
                ("n_duplicate", models.BigIntegerField(default=0)),
                ("n_corrected", models.BigIntegerField(default=0)),
                ("n_late", models.BigIntegerField(default=0)),
                ("n_too_late", models.BigIntegerField(default=0)),
                ("n_rejected", models.BigIntegerField(default=0)),
                ("n_ahead", models.BigIntegerField(default=0)),
                (
                    "source",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="days", to="usage.source"
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("source", "received_on"), name="usage_sourceday_once")],
            },
        ),
        migrations.CreateModel(
            name="TooLateRecord",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("received_at", models.DateTimeField()),
                ("cluster", models.CharField(blank=True, db_default="", default="", max_length=128)),
                ("job", models.CharField(max_length=128)),
                ("array_task", models.CharField(blank=True, db_default="", default="", max_length=64)),
                ("submit_at", models.DateTimeField()),
                ("restart", models.IntegerField(default=0)),
                ("revision", models.BigIntegerField(default=0)),
                (
                    "state",
                    apps.usage.columns.StateField(
                        choices=[
                            ("pending", "Waiting to start"),
                            ("running", "Running"),
                            ("finished", "Finished"),
                            ("withdrawn", "Withdrawn"),
                        ]
                    ),
                ),
                ("end_at", models.DateTimeField()),
                ("cpu_s", models.FloatField(default=0)),
                (
                    "account",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="accounts.account"
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="runs.run"
                    ),
                ),
                (
                    "source",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="usage.source"),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["source", "-received_at"], name="usage_too_late_newest")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("source", "cluster", "job", "array_task", "submit_at", "restart", "revision", "end_at"),
                        name="usage_toolaterecord_once",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="RejectedLine",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("line", models.BigIntegerField()),
                ("code", models.CharField(max_length=64)),
                ("message", models.CharField(max_length=512)),
                ("excerpt", models.CharField(blank=True, default="", max_length=256)),
                (
                    "usage_import",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="rejected_lines", to="usage.import"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("usage_import", "line"), name="usage_rejectedline_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="Repetition",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("n_records", models.BigIntegerField()),
                ("last_at", models.DateTimeField()),
                (
                    "by_run",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="runs.run"
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="runs.run"),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("run", "by_run"), name="usage_repetition_once", nulls_distinct=False
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="SiteDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("site", models.CharField(blank=True, default="", max_length=128)),
                ("day", models.DateField()),
                ("hours", models.IntegerField()),
                (
                    "source",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="usage.source",
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("site", "day", "source"), name="usage_siteday_once")],
            },
        ),
        migrations.CreateModel(
            name="SealedHour",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("hour_at", models.DateTimeField()),
                ("n_records", models.BigIntegerField(default=0)),
                ("cpu_s", models.FloatField(default=0)),
                ("gpu_s", models.FloatField(default=0)),
                ("mem_gb_s", models.FloatField(default=0)),
                ("node_s", models.FloatField(default=0)),
                ("billing", models.FloatField(default=0)),
                ("jobs", models.FloatField(default=0)),
                (
                    "source",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="usage.source"),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("source", "hour_at"), name="usage_sealedhour_once")],
            },
        ),
        migrations.CreateModel(
            name="ReplacedRecord",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("replaced_at", models.DateTimeField()),
                ("cluster", models.CharField(blank=True, db_default="", default="", max_length=128)),
                ("job", models.CharField(max_length=128)),
                ("array_task", models.CharField(blank=True, db_default="", default="", max_length=64)),
                ("submit_at", models.DateTimeField()),
                ("job_number", models.IntegerField()),
                ("key_hash", models.BigIntegerField()),
                ("restart", apps.usage.columns.UsualIntegerField(default=0, null=True, usual=0)),
                ("revision", apps.usage.columns.UsualBigIntegerField(default=0, null=True, usual=0)),
                (
                    "state",
                    apps.usage.columns.StateField(
                        choices=[
                            ("pending", "Waiting to start"),
                            ("running", "Running"),
                            ("finished", "Finished"),
                            ("withdrawn", "Withdrawn"),
                        ]
                    ),
                ),
                ("site", models.CharField(blank=True, default="", max_length=128)),
                ("start_at", models.DateTimeField(null=True)),
                ("end_at", models.DateTimeField(null=True)),
                ("cpus", apps.usage.columns.UsualFloatField(default=0, null=True, usual=1.0)),
                ("gpus", apps.usage.columns.UsualFloatField(default=0, null=True, usual=0.0)),
                ("nodes", apps.usage.columns.UsualFloatField(default=0, null=True, usual=0.0)),
                ("mem_mb", apps.usage.columns.UsualFloatField(default=0, null=True, usual=0.0)),
                ("billing", apps.usage.columns.UsualFloatField(default=0, null=True, usual=0.0)),
                ("requested_s", models.FloatField(null=True)),
                ("is_charge", models.BooleanField(default=False)),
                ("seen_at", models.DateTimeField(null=True)),
                ("note", models.CharField(blank=True, default="", max_length=64)),
                (
                    "account",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="accounts.account",
                    ),
                ),
                (
                    "by_run",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="runs.run",
                    ),
                ),
                (
                    "job_class",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="usage.jobclass",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="runs.run"
                    ),
                ),
                (
                    "source",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="usage.source"),
                ),
                ("kinds", models.JSONField(null=True)),
                ("sluid", models.BigIntegerField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["source", "-replaced_at"], name="usage_replaced_newest"),
                    models.Index(fields=["by_run", "job"], name="usage_replaced_by"),
                ],
            },
        ),
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(_RECORDS)],
            state_operations=[
                migrations.CreateModel(
                    name="Record",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("key_hash", models.BigIntegerField()),
                        ("submit_at", models.DateTimeField()),
                        ("start_at", models.DateTimeField(null=True)),
                        ("end_at", models.DateTimeField(null=True)),
                        ("revision", apps.usage.columns.UsualBigIntegerField(default=0, null=True, usual=0)),
                        ("cpus", apps.usage.columns.UsualFloatField(default=0, null=True, usual=1.0)),
                        ("gpus", apps.usage.columns.UsualFloatField(default=0, null=True, usual=0.0)),
                        ("nodes", apps.usage.columns.UsualFloatField(default=0, null=True, usual=0.0)),
                        ("mem_mb", apps.usage.columns.UsualFloatField(default=0, null=True, usual=0.0)),
                        ("billing", apps.usage.columns.UsualFloatField(default=0, null=True, usual=0.0)),
                        ("requested_s", models.FloatField(null=True)),
                        ("seen_at", models.DateTimeField(null=True)),
                        (
                            "run",
                            apps.usage.columns.Int4ForeignKey(
                                db_constraint=False,
                                db_index=False,
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                to="runs.run",
                            ),
                        ),
                        (
                            "source",
                            apps.usage.columns.Int4ForeignKey(
                                db_constraint=False,
                                db_index=False,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="records",
                                to="usage.source",
                            ),
                        ),
                        (
                            "account",
                            apps.usage.columns.Int4ForeignKey(
                                db_constraint=False,
                                db_index=False,
                                on_delete=django.db.models.deletion.PROTECT,
                                to="accounts.account",
                            ),
                        ),
                        (
                            "job_class",
                            apps.usage.columns.Int4ForeignKey(
                                db_constraint=False,
                                db_index=False,
                                on_delete=django.db.models.deletion.PROTECT,
                                to="usage.jobclass",
                            ),
                        ),
                        ("job_number", models.IntegerField()),
                        ("restart", apps.usage.columns.UsualIntegerField(default=0, null=True, usual=0)),
                        ("is_charge", models.BooleanField(db_default=False, default=False)),
                        (
                            "state",
                            apps.usage.columns.StateField(
                                choices=[
                                    ("pending", "Waiting to start"),
                                    ("running", "Running"),
                                    ("finished", "Finished"),
                                    ("withdrawn", "Withdrawn"),
                                ]
                            ),
                        ),
                        ("cluster", models.CharField(blank=True, db_default="", default="", max_length=128)),
                        ("job", models.CharField(max_length=128)),
                        ("array_task", models.CharField(blank=True, db_default="", default="", max_length=64)),
                        ("site", models.CharField(blank=True, default="", max_length=128)),
                        ("note", models.CharField(blank=True, db_default="", default="", max_length=64)),
                        ("kinds", models.JSONField(null=True)),
                        ("sluid", models.BigIntegerField(null=True)),
                    ],
                ),
            ],
        ),
        migrations.CreateModel(
            name="Overlap",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("site", models.CharField(max_length=128)),
                ("from_at", models.DateTimeField()),
                ("to_at", models.DateTimeField()),
                (
                    "state",
                    models.CharField(
                        choices=[("held", "Held"), ("counted", "Both count"), ("dropped", "Only the first counts")],
                        default="held",
                        max_length=16,
                    ),
                ),
                ("found_at", models.DateTimeField()),
                ("decided_at", models.DateTimeField(blank=True, null=True)),
                ("reason", models.TextField(blank=True, default="")),
                (
                    "decided_by",
                    models.ForeignKey(
                        blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "held",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="overlaps", to="usage.source"
                    ),
                ),
                (
                    "kept",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="usage.source"),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["held", "site", "from_at"], name="usage_overlap_hours")],
            },
        ),
        migrations.CreateModel(
            name="RunLine",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("job", models.CharField(max_length=128)),
                ("array_task", models.CharField(blank=True, default="", max_length=64)),
                ("kind", models.CharField(max_length=8)),
                ("happened_at", models.DateTimeField()),
                ("rates", models.JSONField(default=list)),
                (
                    "run",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="runs.run"
                    ),
                ),
                (
                    "source",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="usage.source"
                    ),
                ),
                ("values", models.JSONField(db_default={}, default=dict)),
                ("digest", models.BigIntegerField(db_default=0, default=0)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("source", "job", "array_task", "digest"), name="usage_runline_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="UnclearJob",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("job", models.CharField(max_length=128)),
                ("array_task", models.CharField(blank=True, default="", max_length=64)),
                ("gaps", models.JSONField(default=list)),
                ("last_at", models.DateTimeField()),
                (
                    "source",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="usage.source"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("source", "job", "array_task"), name="usage_unclearjob_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="Kind",
            fields=[
                ("id", models.SmallAutoField(primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=64, unique=True)),
                ("first_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="KindHour",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "hour_at",
                        "source_id",
                        "account_id",
                        "job_class_id",
                        "site",
                        "kind_id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("hour_at", models.DateTimeField()),
                ("site", models.CharField(blank=True, default="", max_length=128)),
                ("amount", models.FloatField()),
                (
                    "account",
                    apps.usage.columns.Int4ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="accounts.account",
                    ),
                ),
                (
                    "job_class",
                    apps.usage.columns.Int4ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="usage.jobclass",
                    ),
                ),
                (
                    "kind",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="usage.kind",
                    ),
                ),
                (
                    "source",
                    apps.usage.columns.Int4ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="usage.source",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="SealedKind",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("hour_at", models.DateTimeField()),
                ("amount", models.FloatField()),
                (
                    "kind",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="usage.kind"
                    ),
                ),
                (
                    "source",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="usage.source"),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("source", "hour_at", "kind"), name="usage_sealedkind_once")
                ],
            },
        ),
        migrations.RunSQL(_MAKE_PARTITION),
        migrations.RunSQL(_GUARDS),
    )
