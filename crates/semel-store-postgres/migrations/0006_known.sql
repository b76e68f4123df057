-- A batch that a node could decide by what it remembers, in one call and so in one round trip: new jobs, and jobs whose delivery
-- ends. It does what add_fresh does, which nodes of the version before still call, and more.
--
-- `queues` (in order) are as the caller knows them, in these `versions`, and all was decided by a time `decided` that may
-- differ from the database's by `slack` at most (NULL: the caller's clock is the one that counts). Returns the database's
-- time; NULL if anything is not so, and then nothing has happened. A key that is known is a violation of its primary key; a
-- delivery that is not out any more, or of whose job more is to be told than the caller knew, is SM001.
--
-- Every array has its price, so what is alike in all new jobs is not sent: without `priorities` they are all of the queue
-- `job_queues[1]`, due at once, of priority 0, without group, metadata and overrides. Arrays of one length are taken apart in
-- what is selected, side by side, and not in FROM, where all rows would be put down first and read again.
CREATE FUNCTION semel.apply_known(
    queues int[], versions bigint[], decided bigint, slack bigint,
    key_queues int[], keys text[], key_ids bigint[],
    ids bigint[], job_queues int[], job_keys text[], fingerprints bytea[], payloads text[],
    due bigint[], priorities smallint[], groups text[], metadata text[], overrides text[],
    ended bigint[], tokens bigint[], end_queues int[], states smallint[], end_due bigint[], attempts int[],
    deferrals int[], stories text[], look_at bigint[],
    tally_queues int[], unfinished bigint[], completed bigint[], dead bigint[], cancelled bigint[]
) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    now constant bigint := floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint;
    sole constant int := job_queues[1];
    gone bigint;
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
    IF cardinality(keys) > 0 THEN
        INSERT INTO semel.key (queue, key, ids)
        SELECT unnest(key_queues), unnest(keys), ARRAY[unnest(key_ids)];
    END IF;
    IF cardinality(ended) > 0 THEN
        -- In this order whatever the planner knows of the table (found_in_live in row/live.rs).
        DELETE FROM semel.live l
         USING (SELECT * FROM unnest(ended, tokens) AS u (id, token) LIMIT cardinality(ended)) u
         CROSS JOIN LATERAL (
               SELECT ctid AS at
                 FROM semel.live
                WHERE id = u.id AND token = u.token AND NOT received AND progress IS NULL
               OFFSET 0
               ) spot
         WHERE l.ctid = spot.at;
        GET DIAGNOSTICS gone = ROW_COUNT;
        IF gone <> cardinality(ended) THEN
            RAISE EXCEPTION 'a delivery that was to end is not as it was handed out' USING ERRCODE = 'SM001';
        END IF;
        INSERT INTO semel.done (id, queue, state, due, finished_at, attempts, deferrals, progress, look_at)
        SELECT unnest(ended), unnest(end_queues), unnest(states), unnest(end_due), decided, unnest(attempts),
               unnest(deferrals), unnest(stories), unnest(look_at);
    END IF;
    IF cardinality(ids) > 0 AND priorities IS NULL THEN
        INSERT INTO semel.job (id, queue, created_at, run_at, priority, key, gated, fingerprint, payload)
        SELECT unnest(ids), sole, decided, decided, 0, unnest(job_keys), false, unnest(fingerprints), unnest(payloads);
        INSERT INTO semel.live (id, queue, rank, due, open, joined, attempts, deferrals)
        SELECT unnest(ids), sole, 0, decided, true, decided, 0, 0;
    ELSIF cardinality(ids) > 0 THEN
        INSERT INTO semel.job (id, queue, created_at, run_at, priority, key, grp, gated, fingerprint,
                               payload, metadata, overrides)
        SELECT unnest(ids), unnest(job_queues), decided, unnest(due), unnest(priorities), unnest(job_keys),
               unnest(groups), false, unnest(fingerprints), unnest(payloads), unnest(metadata), unnest(overrides);
        INSERT INTO semel.live (id, queue, rank, due, open, joined, attempts, deferrals)
        SELECT unnest(ids), unnest(job_queues), -unnest(priorities), unnest(due), true, decided, 0, 0;
    END IF;
    INSERT INTO semel.tally (queue, unfinished, completed, dead, cancelled)
    SELECT unnest(tally_queues), unnest(unfinished), unnest(completed), unnest(dead), unnest(cancelled);
    RETURN now;
END
$$;

REVOKE EXECUTE ON FUNCTION semel.apply_known FROM PUBLIC;

-- As it was, but each job is looked up by itself: a plan that is made while the table is empty would read all of it later.
CREATE OR REPLACE FUNCTION semel.lock_queues(queues int[], jobs bigint[], alone int[])
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
        located := ARRAY(
            SELECT l.queue
              FROM unnest(jobs) AS u (id)
             CROSS JOIN LATERAL (SELECT queue FROM semel.live WHERE id = u.id LIMIT 1) l
        );
        wanted := wanted || located;
        IF cardinality(located) < cardinality(jobs) THEN
            wanted := wanted || ARRAY(
                SELECT d.queue
                  FROM unnest(jobs) AS u (id)
                 CROSS JOIN LATERAL (SELECT queue FROM semel.done WHERE id = u.id LIMIT 1) d
            );
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
