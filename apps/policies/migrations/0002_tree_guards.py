"""What the database itself refuses: rewriting history, half a publish, and anything published that is no tree.

Checks look at sets, not at rows one by one: few changed entries are walked up to the root (and down from moved ones),
many are answered by one breadth-first walk of the whole tree.
"""

from django.db import migrations

FORWARD = r"""
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

BACKWARD = """
DROP TRIGGER policies_revision_is_a_tree ON policies_revision;
DROP TRIGGER policies_policy_head_is_published ON policies_policy;
DROP TRIGGER policies_revision_unchanged ON policies_revision;
DROP TRIGGER policies_revision_history_stays ON policies_revision;
DROP TRIGGER policies_entry_history_stays ON policies_entry;
DROP TRIGGER policies_entry_closed ON policies_entry;
DROP TRIGGER policies_entry_rewritten ON policies_entry;
DROP TRIGGER policies_entry_added ON policies_entry;
DROP FUNCTION policies_revision_is_a_tree();
DROP FUNCTION policies_refuse_tree(text);
DROP FUNCTION policies_policy_head_is_published();
DROP FUNCTION policies_revision_unchanged();
DROP FUNCTION policies_history_stays();
DROP FUNCTION policies_entry_closed();
DROP FUNCTION policies_entry_rewritten();
DROP FUNCTION policies_entry_added();
ALTER TABLE policies_entry DROP CONSTRAINT policies_entry_name_clean;
ALTER TABLE policies_revision ALTER COLUMN tree SET STORAGE EXTENDED;
"""


class Migration(migrations.Migration):
    dependencies = [("policies", "0001_tables")]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
