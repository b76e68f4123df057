-- A batch of nothing but new jobs, in one call and so in one round trip: locks, checks and rows. Each call that is spared
-- saves more than the rows of a small batch cost.
--
-- `queues` (in order) are as the caller knows them, in these `versions`, and the jobs were decided by a time `decided` that
-- may differ from the database's by `slack` at most (NULL: the caller's clock is the one that counts). Returns the database's
-- time; NULL if anything is not so, and then nothing has happened. A key that is known is a violation of its primary key.
CREATE FUNCTION semel.add_fresh(
    queues int[], versions bigint[], decided bigint, slack bigint,
    key_queues int[], keys text[], key_ids bigint[],
    ids bigint[], job_queues int[], created bigint[], due bigint[], priorities smallint[], job_keys text[],
    groups text[], gated boolean[], fingerprints bytea[], payloads text[], metadata text[], overrides text[],
    tally_queues int[], unfinished bigint[]
) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    now constant bigint := floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint;
BEGIN
    IF abs(now - decided) > slack THEN
        RETURN NULL;
    END IF;
    -- The lock of a queue (locks.rs), shared. What is read after it is as it stays until the end.
    PERFORM pg_advisory_xact_lock_shared(1397050627, q.id) FROM unnest(queues) AS q (id);
    IF EXISTS (
        SELECT
          FROM unnest(queues, versions) AS u (id, version)
          LEFT JOIN semel.queue q ON q.id = u.id
         WHERE (q.free AND NOT q.deleted AND q.version = u.version) IS NOT TRUE
    ) THEN
        RETURN NULL;
    END IF;
    INSERT INTO semel.key (queue, key, ids)
    SELECT u.queue, u.key, ARRAY[u.id]
      FROM unnest(key_queues, keys, key_ids) AS u (queue, key, id);
    INSERT INTO semel.job (id, queue, created_at, run_at, priority, key, grp, gated, fingerprint,
                           payload, metadata, overrides)
    SELECT *
      FROM unnest(ids, job_queues, created, due, priorities, job_keys, groups, gated, fingerprints,
                  payloads, metadata, overrides);
    INSERT INTO semel.live (id, queue, rank, due, open, joined, attempts, deferrals)
    SELECT u.id, u.queue, -u.priority, u.due, true, u.created, 0, 0
      FROM unnest(ids, job_queues, priorities, due, created) AS u (id, queue, priority, due, created);
    INSERT INTO semel.tally (queue, unfinished, completed, dead, cancelled)
    SELECT u.queue, u.unfinished, 0, 0, 0
      FROM unnest(tally_queues, unfinished) AS u (queue, unfinished);
    RETURN now;
END
$$;

REVOKE EXECUTE ON FUNCTION semel.add_fresh FROM PUBLIC;

-- Locks queues (those that are named, and those of the jobs that are named) in the order of their numbers: shared, or alone
-- where a queue is not free or where it is asked for. Returns them as they are under the lock, with the time, which is told
-- when all locks are held; one row without a queue if there is none. Statements after it in the transaction find the numbers
-- in a setting.
--
-- The caller's statement began before the locks were held and would see what was so then. This function is volatile, so what
-- it reads after them is as it is after them.
CREATE FUNCTION semel.lock_queues(queues int[], jobs bigint[], alone int[])
RETURNS TABLE (
    told_at bigint, is_alone boolean,
    id int, name text, config text, gate text, secrets text, created_at bigint, version bigint, deleted boolean,
    sweep_to bigint
)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    wanted  int[] := queues;
    located int[];
    singly  int[] := '{}';
    locked  int[] := '{}';
    one     record;
BEGIN
    IF cardinality(jobs) > 0 THEN
        located := ARRAY(SELECT l.queue FROM unnest(jobs) AS u (id) JOIN semel.live l ON l.id = u.id);
        wanted := wanted || located;
        IF cardinality(located) < cardinality(jobs) THEN
            wanted := wanted || ARRAY(SELECT d.queue FROM unnest(jobs) AS u (id) JOIN semel.done d ON d.id = u.id);
        END IF;
    END IF;
    FOR one IN
        SELECT q.id, NOT q.free OR q.id = ANY (alone) AS singly
          FROM semel.queue q
         WHERE q.id = ANY (wanted)
         ORDER BY q.id
    LOOP
        locked := locked || one.id;
        IF one.singly THEN
            singly := singly || one.id;
            PERFORM pg_advisory_xact_lock(1397050627, one.id);
        ELSE
            PERFORM pg_advisory_xact_lock_shared(1397050627, one.id);
        END IF;
    END LOOP;
    PERFORM set_config('semel.queues', locked::text, true);
    RETURN QUERY
        SELECT t.now, CASE WHEN q.id IS NOT NULL THEN q.id = ANY (singly) END,
               q.id, q.name, q.config, q.gate, q.secrets, q.created_at, q.version, q.deleted, q.sweep_to
          FROM (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now) t
          LEFT JOIN semel.queue q ON q.id = ANY (locked);
END
$$;

REVOKE EXECUTE ON FUNCTION semel.lock_queues FROM PUBLIC;
