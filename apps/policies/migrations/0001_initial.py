import uuid

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.manager
from django.conf import settings
from django.db import migrations, models

from apps.core.create_tables import create_tables

# What the database itself refuses: rewriting history, half a publish, and anything published that is no tree.
# Checks look at sets, not at rows one by one: few changed entries are walked up to the root (and down from moved ones),
# many are answered by one breadth-first walk of the whole tree.
_TREE_GUARDS = r"""
ALTER TABLE policies_revision ALTER COLUMN tree SET STORAGE EXTERNAL;  -- compressed already

ALTER TABLE policies_entry ADD CONSTRAINT policies_entry_name_clean CHECK (
    name IS NFC NORMALIZED
    AND name !~ '[\u0001-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]'
);

-- Entries come with the next revision and with no other.
CREATE FUNCTION policies_entry_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT 1 FROM (SELECT DISTINCT policy_id, since, until FROM added) a
        JOIN policies_policy p ON p.id = a.policy_id
        WHERE a.since <> p.head_number + 1 OR a.until IS NOT NULL
    ) THEN
        RAISE EXCEPTION 'entries can only be added by the next revision of their policy'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'policies_entry_history_stands';
    END IF;
    -- Nothing changes here; it makes the check of the head run at the end of this transaction.
    UPDATE policies_policy SET head_number = head_number WHERE id IN (SELECT DISTINCT policy_id FROM added);
    RETURN NULL;
END $$;

CREATE TRIGGER policies_entry_added AFTER INSERT ON policies_entry
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION policies_entry_added();

-- A version of an entry is closed once, by the next revision, and never changed otherwise.
-- The condition of the first trigger is all that a million closed rows cost; its function only ever refuses.
CREATE FUNCTION policies_entry_rewritten() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a version of an entry can only be closed, once, by the next revision of its policy'
        USING ERRCODE = 'check_violation', CONSTRAINT = 'policies_entry_history_stands';
END $$;

CREATE TRIGGER policies_entry_rewritten BEFORE UPDATE ON policies_entry FOR EACH ROW
    WHEN (
        OLD.until IS NOT NULL OR NEW.until IS NULL
        OR (OLD.id, OLD.policy_id, OLD.uid, OLD.parent_uid, OLD.name, OLD.kind, OLD.shares, OLD.is_group, OLD.scope,
            OLD.scope_sources, OLD.locked, OLD.dates, OLD.members, OLD.since)
        IS DISTINCT FROM
           (NEW.id, NEW.policy_id, NEW.uid, NEW.parent_uid, NEW.name, NEW.kind, NEW.shares, NEW.is_group, NEW.scope,
            NEW.scope_sources, NEW.locked, NEW.dates, NEW.members, NEW.since)
    )
    EXECUTE FUNCTION policies_entry_rewritten();

CREATE FUNCTION policies_entry_closed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT 1 FROM (SELECT DISTINCT policy_id, until FROM became) b
        JOIN policies_policy p ON p.id = b.policy_id
        WHERE b.until <> p.head_number + 1
    ) THEN
        RAISE EXCEPTION 'entries can only be closed by the next revision of their policy'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'policies_entry_history_stands';
    END IF;
    UPDATE policies_policy SET head_number = head_number WHERE id IN (SELECT DISTINCT policy_id FROM became);
    RETURN NULL;
END $$;

CREATE TRIGGER policies_entry_closed AFTER UPDATE ON policies_entry
    REFERENCING NEW TABLE AS became FOR EACH STATEMENT EXECUTE FUNCTION policies_entry_closed();

-- A policy that has never had an entry below its root says nothing, and may be removed with its history.
CREATE FUNCTION policies_history_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM policies_entry WHERE policy_id = OLD.policy_id AND parent_uid IS NOT NULL) THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'what was published is never deleted: archive the entry by a change set'
        USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_history_stays';
END $$;

CREATE TRIGGER policies_entry_history_stays BEFORE DELETE ON policies_entry
    FOR EACH ROW EXECUTE FUNCTION policies_history_stays();
CREATE TRIGGER policies_revision_history_stays BEFORE DELETE ON policies_revision
    FOR EACH ROW EXECUTE FUNCTION policies_history_stays();

-- A revision never changes; only the link to a person who was deleted is cleared.
CREATE FUNCTION policies_revision_unchanged() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE anonymous policies_revision%ROWTYPE;
BEGIN
    anonymous := OLD;
    anonymous.author_id := NULL;
    IF NEW IS DISTINCT FROM OLD AND NEW IS DISTINCT FROM anonymous THEN
        RAISE EXCEPTION 'a revision is never changed: publish another one'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'policies_revision_unchanged';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER policies_revision_unchanged BEFORE UPDATE ON policies_revision
    FOR EACH ROW EXECUTE FUNCTION policies_revision_unchanged();

-- At the end of a transaction: the head is a revision, the newest one, and no entry belongs to a later one.
CREATE FUNCTION policies_policy_head_is_published() RETURNS trigger LANGUAGE plpgsql
    SET plan_cache_mode = force_custom_plan AS $$
DECLARE head integer;
BEGIN
    SELECT head_number INTO head FROM policies_policy WHERE id = NEW.id;
    IF head IS NULL THEN RETURN NULL; END IF;
    IF head <> COALESCE((SELECT max(number) FROM policies_revision WHERE policy_id = NEW.id), 0) THEN
        RAISE EXCEPTION 'the head of policy % is not its newest revision', NEW.slug
            USING ERRCODE = 'check_violation', CONSTRAINT = 'policies_policy_head_is_published';
    END IF;
    IF EXISTS (SELECT 1 FROM policies_entry WHERE policy_id = NEW.id AND since > head)
        OR EXISTS (SELECT 1 FROM policies_entry WHERE policy_id = NEW.id AND until > head)
    THEN
        RAISE EXCEPTION 'entries of policy % were changed without a revision', NEW.slug
            USING ERRCODE = 'check_violation', CONSTRAINT = 'policies_policy_head_is_published';
    END IF;
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER policies_policy_head_is_published AFTER INSERT OR UPDATE OF head_number ON policies_policy
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION policies_policy_head_is_published();

-- At the end of a publish: one root, everything reaches it, at most 64 levels below it.
CREATE FUNCTION policies_refuse_tree(what text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'this revision is no tree: %', what
        USING ERRCODE = 'check_violation', CONSTRAINT = 'policies_revision_is_a_tree';
END $$;

CREATE FUNCTION policies_revision_is_a_tree() RETURNS trigger LANGUAGE plpgsql
    SET plan_cache_mode = force_custom_plan AS $$  -- a plan made for ten entries is no plan for a million
DECLARE
    few CONSTANT integer := 2000;
    n_changed bigint; n_current bigint; n_reached bigint; deepest integer; name_of_bad text;
BEGIN
    IF NEW.number <> (SELECT head_number FROM policies_policy WHERE id = NEW.policy_id) THEN
        PERFORM policies_refuse_tree('it is not the head; revisions are published one at a time');
    END IF;
    IF NEW.number > 1 AND NOT EXISTS (
        SELECT 1 FROM policies_revision WHERE policy_id = NEW.policy_id AND number = NEW.number - 1
    ) THEN
        PERFORM policies_refuse_tree('the revision before it is missing');
    END IF;
    IF NOT EXISTS (
        SELECT 1 FROM policies_entry WHERE policy_id = NEW.policy_id AND until IS NULL AND parent_uid IS NULL
    ) THEN
        PERFORM policies_refuse_tree('it has no root');
    END IF;
    SELECT count(*) INTO n_changed FROM (
        (SELECT 1 FROM policies_entry WHERE policy_id = NEW.policy_id AND since = NEW.number LIMIT few + 1)
        UNION ALL
        (SELECT 1 FROM policies_entry WHERE policy_id = NEW.policy_id AND until = NEW.number LIMIT few + 1)
    ) changed;

    IF n_changed > few THEN
        WITH RECURSIVE down(uid, level) AS (
            SELECT uid, 0 FROM policies_entry
            WHERE policy_id = NEW.policy_id AND until IS NULL AND parent_uid IS NULL
            UNION ALL
            SELECT e.uid, d.level + 1 FROM down d
            JOIN policies_entry e ON e.policy_id = NEW.policy_id AND e.until IS NULL AND e.parent_uid = d.uid
            WHERE d.level <= 64
        )
        SELECT count(*), max(level) INTO n_reached, deepest FROM down;
        SELECT count(*) INTO n_current FROM policies_entry WHERE policy_id = NEW.policy_id AND until IS NULL;
        IF deepest > 64 THEN PERFORM policies_refuse_tree('it has more than 64 levels'); END IF;
        IF n_reached <> n_current THEN
            PERFORM policies_refuse_tree((n_current - n_reached) || ' entries are orphans or in a cycle');
        END IF;
        IF n_current <> NEW.n_entries THEN
            PERFORM policies_refuse_tree('it has ' || n_current || ' entries, not ' || NEW.n_entries);
        END IF;
        RETURN NULL;
    END IF;

    -- Whoever came or changed reaches the root within 64 steps: else a cycle, an orphan, or too deep.
    WITH RECURSIVE up(start, at_parent, steps) AS (
        SELECT uid, parent_uid, 0 FROM policies_entry
        WHERE policy_id = NEW.policy_id AND since = NEW.number AND until IS NULL
        UNION ALL
        SELECT u.start, e.parent_uid, u.steps + 1 FROM up u
        JOIN policies_entry e ON e.policy_id = NEW.policy_id AND e.until IS NULL AND e.uid = u.at_parent
        WHERE u.steps < 64
    )
    SELECT e.name INTO name_of_bad FROM policies_entry e
    WHERE e.policy_id = NEW.policy_id AND e.since = NEW.number AND e.until IS NULL
        AND e.uid NOT IN (SELECT start FROM up WHERE at_parent IS NULL)
    LIMIT 1;
    IF name_of_bad IS NOT NULL THEN
        PERFORM policies_refuse_tree(
            quote_literal(name_of_bad) || ' does not reach the root within 64 levels (a cycle, an orphan, or too deep)');
    END IF;

    -- Nobody lost a parent.
    SELECT child.name INTO name_of_bad FROM policies_entry gone
    JOIN policies_entry child
        ON child.policy_id = gone.policy_id AND child.until IS NULL AND child.parent_uid = gone.uid
    WHERE gone.policy_id = NEW.policy_id AND gone.until = NEW.number AND NOT EXISTS (
        SELECT 1 FROM policies_entry now
        WHERE now.policy_id = gone.policy_id AND now.uid = gone.uid AND now.until IS NULL
    )
    LIMIT 1;
    IF name_of_bad IS NOT NULL THEN
        PERFORM policies_refuse_tree(quote_literal(name_of_bad) || ' is an orphan: its parent was archived');
    END IF;

    -- What moved took its subtree along: still within 64 levels.
    WITH RECURSIVE moved AS (
        SELECT now.uid, now.parent_uid FROM policies_entry now
        JOIN policies_entry before
            ON before.policy_id = now.policy_id AND before.uid = now.uid AND before.until = NEW.number
        WHERE now.policy_id = NEW.policy_id AND now.since = NEW.number AND now.until IS NULL
            AND now.parent_uid IS DISTINCT FROM before.parent_uid
    ),
    up(start, at_parent, steps) AS (
        SELECT uid, parent_uid, 0 FROM moved
        UNION ALL
        SELECT u.start, e.parent_uid, u.steps + 1 FROM up u
        JOIN policies_entry e ON e.policy_id = NEW.policy_id AND e.until IS NULL AND e.uid = u.at_parent
        WHERE u.steps < 64
    ),
    down(uid, level) AS (
        SELECT start, steps FROM up WHERE at_parent IS NULL
        UNION ALL
        SELECT e.uid, d.level + 1 FROM down d
        JOIN policies_entry e ON e.policy_id = NEW.policy_id AND e.until IS NULL AND e.parent_uid = d.uid
        WHERE d.level <= 64
    )
    SELECT max(level) INTO deepest FROM down;
    IF deepest > 64 THEN PERFORM policies_refuse_tree('it has more than 64 levels'); END IF;
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER policies_revision_is_a_tree AFTER INSERT ON policies_revision
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION policies_revision_is_a_tree();
"""

# The few entries with membership rules, in all revisions: what they name decides the mapping of past days.
_INDEX_OF_MEMBERS = "CREATE INDEX policies_entry_members ON policies_entry (policy_id) WHERE members <> '[]'::jsonb"


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0001_initial"),
    ]

    operations = create_tables(
        migrations.CreateModel(
            name="Policy",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("slug", models.SlugField(max_length=64, unique=True)),
                ("name", models.CharField(max_length=128)),
                ("description", models.TextField(blank=True, default="")),
                (
                    "visibility",
                    models.CharField(
                        choices=[
                            ("tree", "All signed-in users see the whole tree"),
                            ("path", "Users see their own path; other entries need a grant"),
                        ],
                        default="path",
                        max_length=16,
                    ),
                ),
                ("head_number", models.PositiveIntegerField(default=0)),
                ("is_sample", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField()),
                ("archived_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "verbose_name_plural": "policies",
            },
            managers=[
                ("all_objects", django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name="ChangeSet",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("base_number", models.PositiveIntegerField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("draft", "Draft"),
                            ("proposed", "Waiting for a decision"),
                            ("approved", "Approved, not published yet"),
                            ("published", "Published"),
                            ("withdrawn", "Withdrawn"),
                        ],
                        default="draft",
                        max_length=16,
                    ),
                ),
                ("version", models.PositiveIntegerField(default=1)),
                ("operations", models.JSONField(default=list)),
                ("reason", models.TextField(blank=True, default="")),
                ("author_name", models.CharField(max_length=256)),
                ("effective_at", models.DateTimeField(blank=True, null=True)),
                (
                    "origin",
                    models.CharField(
                        choices=[
                            ("hand", "Manual"),
                            ("import", "From a file"),
                            ("rule", "By a membership rule"),
                            ("dates", "By date"),
                            ("allocation", "By a rule of allocations"),
                            ("revert", "Undoes a revision"),
                            ("request", "Requested by a group"),
                            ("mount", "From another site"),
                        ],
                        db_default="hand",
                        default="hand",
                        max_length=16,
                    ),
                ),
                ("asks_entry_uid", models.UUIDField(null=True)),
                ("asked", models.JSONField(null=True)),
                ("reverts_number", models.PositiveIntegerField(null=True)),
                ("undone", models.JSONField(db_default=[], default=list)),
                ("decided_name", models.CharField(blank=True, db_default="", default="", max_length=256)),
                ("held_for", models.TextField(blank=True, db_default="", default="")),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
                (
                    "author",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "decided_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="change_sets_decided",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="change_sets", to="policies.policy"
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["policy", "state", "-id"], name="policies_changeset_state"),
                    models.Index(
                        condition=models.Q(("effective_at__isnull", False), ("state", "approved")),
                        fields=["effective_at"],
                        name="policies_changeset_due",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ProposedTree",
            fields=[
                (
                    "change_set",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="proposed_tree",
                        serialize=False,
                        to="policies.changeset",
                    ),
                ),
                ("settings", models.JSONField()),
                ("tree", models.BinaryField()),
                ("tree_digest", models.CharField(max_length=64)),
            ],
        ),
        migrations.CreateModel(
            name="Comment",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("operation", models.PositiveIntegerField(null=True)),
                ("author_name", models.CharField(max_length=256)),
                ("text", models.TextField()),
                ("created_at", models.DateTimeField()),
                (
                    "author",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "change_set",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="comments", to="policies.changeset"
                    ),
                ),
            ],
            options={
                "ordering": ("pk",),
            },
        ),
        migrations.CreateModel(
            name="ImportedFile",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField()),
                ("cluster", models.CharField(blank=True, max_length=128)),
                ("text", models.BinaryField()),
                ("digest", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField()),
                (
                    "change_set",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="imported_file",
                        to="policies.changeset",
                    ),
                ),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="imported_files", to="policies.policy"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Capacity",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("site", models.CharField(blank=True, default="", max_length=128)),
                ("starts_on", models.DateField()),
                ("ends_on", models.DateField(null=True)),
                ("per_hour", models.FloatField()),
                ("note", models.CharField(blank=True, default="", max_length=512)),
                ("author_name", models.CharField(max_length=256)),
                ("created_at", models.DateTimeField()),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="capacities", to="policies.policy"
                    ),
                ),
                ("unit", models.CharField(db_default="core-h", default="core-h", max_length=16)),
            ],
            options={
                "verbose_name_plural": "capacities",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("ends_on", None), ("ends_on__gte", models.F("starts_on")), _connector="OR"),
                        name="policies_capacity_period",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("per_hour__gte", 0), ("per_hour__lte", 1000000000000.0)),
                        name="policies_capacity_finite",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Allocation",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("entry_uid", models.UUIDField()),
                ("starts_on", models.DateField()),
                ("ends_on", models.DateField()),
                ("amount", models.FloatField()),
                ("reason", models.CharField(blank=True, default="", max_length=512)),
                ("author_name", models.CharField(max_length=256)),
                ("created_at", models.DateTimeField()),
                ("withdrawn_at", models.DateTimeField(null=True)),
                (
                    "author",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="allocations", to="policies.policy"
                    ),
                ),
                ("unit", models.CharField(db_default="core-h", default="core-h", max_length=16)),
                ("by_rules", models.FloatField(db_default=0.0, default=0.0)),
                ("carried_from", models.UUIDField(null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["policy", "entry_uid", "ends_on"], name="policies_allocation_entry")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("ends_on__gte", models.F("starts_on"))), name="policies_allocation_period"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("amount__gte", 0), ("amount__lte", 1000000000000000.0)),
                        name="policies_allocation_finite",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Adjustment",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uid", models.UUIDField(default=uuid.uuid4)),
                ("entry_uid", models.UUIDField()),
                ("resource", models.CharField(max_length=16)),
                ("amount_s", models.FloatField()),
                ("at", models.DateTimeField()),
                ("note", models.CharField(blank=True, default="", max_length=512)),
                ("reason", models.TextField(blank=True, default="")),
                ("author_name", models.CharField(max_length=256)),
                ("created_at", models.DateTimeField()),
                ("since", models.PositiveIntegerField()),
                ("until", models.PositiveIntegerField(null=True)),
                (
                    "author",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="adjustments", to="policies.policy"
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["policy", "entry_uid"], name="policies_adjustment_entry")],
                "constraints": [
                    models.UniqueConstraint(fields=("policy", "uid"), name="policies_adjustment_once"),
                    models.CheckConstraint(
                        condition=models.Q(("until", None), ("until__gt", models.F("since")), _connector="OR"),
                        name="policies_adjustment_validity",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Revision",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField()),
                ("author_name", models.CharField(max_length=256)),
                ("reason", models.TextField(blank=True, default="")),
                ("published_at", models.DateTimeField()),
                ("n_entries", models.PositiveIntegerField()),
                ("n_changed", models.PositiveIntegerField(db_default=0)),
                ("settings", models.JSONField()),
                ("tree", models.BinaryField()),
                ("tree_digest", models.CharField(max_length=64)),
                (
                    "author",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "change_set",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT, related_name="revision", to="policies.changeset"
                    ),
                ),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="revisions", to="policies.policy"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("policy", "number"), name="policies_revision_number"),
                    models.CheckConstraint(condition=models.Q(("number__gte", 1)), name="policies_revision_from_one"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Approval",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("version", models.PositiveIntegerField()),
                ("user_name", models.CharField(max_length=256)),
                ("created_at", models.DateTimeField()),
                (
                    "user",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "change_set",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="approvals", to="policies.changeset"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("change_set", "version", "user"), name="policies_approval_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="Pin",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("entry_uid", models.UUIDField()),
                ("created_at", models.DateTimeField()),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="pins", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="pins", to="policies.policy"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("user", "policy", "entry_uid"), name="policies_pin_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="Grant",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("entry_uid", models.UUIDField()),
                ("people", models.CharField(blank=True, default="", max_length=256)),
                (
                    "role",
                    models.CharField(
                        choices=[
                            ("viewer", "Viewer"),
                            ("lead", "Group lead"),
                            ("manager", "Allocation manager"),
                            ("admin", "Site admin"),
                        ],
                        max_length=16,
                    ),
                ),
                (
                    "verbs",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(
                            choices=[
                                ("view_aggregate", "See shares and totals"),
                                ("view_members", "See members by name"),
                                ("edit_shares", "Change shares below"),
                                ("edit_structure", "Add, move, rename and archive below"),
                                ("map_accounts", "Map accounts"),
                                ("publish", "Publish changes"),
                                ("approve", "Approve other people’s changes"),
                                ("delegate", "Assign roles (up to their own)"),
                                ("mount", "Mount remote policies"),
                                ("manage_usage", "Correct usage and manage its sources"),
                            ],
                            max_length=32,
                        ),
                        default=list,
                        size=None,
                    ),
                ),
                ("reason", models.CharField(blank=True, default="", max_length=512)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                (
                    "granted_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="grants_given",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="grants",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="grants", to="policies.policy"
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("people", ""), _negated=True),
                        fields=["people"],
                        name="policies_grant_people",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("policy", "entry_uid", "user", "people", "role"),
                        name="policies_grant_once",
                        nulls_distinct=False,
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("people__gt", ""), ("user", None)),
                            models.Q(("people", ""), ("user__isnull", False)),
                            _connector="OR",
                        ),
                        name="policies_grant_to_one",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("verbs", []), _negated=True), name="policies_grant_of_something"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Entry",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uid", models.UUIDField(default=uuid.uuid4)),
                ("parent_uid", models.UUIDField(null=True)),
                ("name", models.CharField(max_length=128)),
                ("kind", models.CharField(default="group", max_length=32)),
                ("shares", models.FloatField(null=True)),
                ("is_group", models.BooleanField(default=True)),
                ("scope", models.CharField(blank=True, default="", max_length=16)),
                ("scope_sources", models.JSONField(default=list)),
                ("locked", models.BooleanField(default=False)),
                ("dates", models.JSONField(null=True)),
                ("members", models.JSONField(db_default=[], default=list)),
                ("mount", models.JSONField(null=True)),
                ("since", models.PositiveIntegerField()),
                ("until", models.PositiveIntegerField(null=True)),
                (
                    "policy",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="entries",
                        to="policies.policy",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "entries",
                "indexes": [
                    models.Index(fields=["policy", "since"], name="policies_entry_opened"),
                    models.Index(
                        condition=models.Q(("until", None), _negated=True),
                        fields=["policy", "until"],
                        name="policies_entry_closed",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("policy", "uid", "since"), name="policies_entry_version"),
                    models.UniqueConstraint(
                        condition=models.Q(("until", None)), fields=("policy", "uid"), name="policies_entry_current"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("until", None)),
                        fields=("policy", "parent_uid", "name"),
                        name="policies_entry_sibling_names",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("parent_uid", None), ("until", None)),
                        fields=("policy",),
                        name="policies_entry_one_root",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("shares", None),
                            models.Q(("shares__gte", 0), ("shares__lte", 1000000000000000.0)),
                            _connector="OR",
                        ),
                        name="policies_entry_shares_finite",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("until", None), ("until__gt", models.F("since")), _connector="OR"),
                        name="policies_entry_validity",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("name", ""), _negated=True), models.Q(("name__contains", "/"), _negated=True)
                        ),
                        name="policies_entry_name",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("parent_uid", models.F("uid")), _negated=True),
                        name="policies_entry_not_its_own_parent",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("scope__in", ["", "local", "global"])), name="policies_entry_scope"
                    ),
                ],
            },
        ),
        migrations.RunSQL(_TREE_GUARDS),
        migrations.RunSQL(_INDEX_OF_MEMBERS),
    )
