-- A batch of nothing but plain publishes to one queue: new jobs that are due at once, of priority 0, without group, metadata
-- and overrides. It does what apply_known does, for them alone: every argument and every statement that is spared is felt in
-- each commit of a node that is published to.
--
-- `queue_id` is as the caller knows it, in this `queue_version`, and all was decided by a time `decided` that may differ from
-- the database's by `slack` at most (NULL: the caller's clock is the one that counts). Returns the database's time; NULL if
-- anything is not so, and then nothing has happened. A key that is known is a violation of its primary key. Arrays are of one
-- length, in the order of the keys, as everybody takes them (apply_known): a key that somebody else is publishing is waited
-- for, and two that wait for each other would wait until one is given up. A job without a key has NULL in its place.
CREATE FUNCTION semel.add_plain(
    queue_id int, queue_version bigint, decided bigint, slack bigint,
    job_ids bigint[], keys text[], fingerprints bytea[], payloads text[]
) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    now constant bigint := floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint;
BEGIN
    -- The lock of a queue (locks.rs), shared: it is never NULL. What is read after it is as it stays until the end. A condition
    -- of nothing but functions is worked out where it stands; PERFORM would run a query for it.
    IF abs(now - decided) > slack OR pg_advisory_xact_lock_shared(1397050627, queue_id) IS NULL THEN
        RETURN NULL;
    END IF;
    IF cardinality(job_ids) = 0 THEN
        RETURN (
            SELECT now FROM semel.queue q WHERE q.id = queue_id AND q.version = queue_version AND q.free AND NOT q.deleted
        );
    END IF;
    -- Counted where the queue is as it should be: one statement less than to look first.
    INSERT INTO semel.tally (queue, unfinished, completed, dead, cancelled)
    SELECT queue_id, cardinality(job_ids), 0, 0, 0
      FROM semel.queue q
     WHERE q.id = queue_id AND q.version = queue_version AND q.free AND NOT q.deleted;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    INSERT INTO semel.key (queue, key, ids)
    SELECT queue_id, u.key, ARRAY[u.id]
      FROM (SELECT unnest(keys) AS key, unnest(job_ids) AS id) u
     WHERE u.key IS NOT NULL;
    INSERT INTO semel.job (id, queue, created_at, run_at, priority, key, gated, fingerprint, payload)
    SELECT unnest(job_ids), queue_id, decided, decided, 0, unnest(keys), false, unnest(fingerprints), unnest(payloads);
    INSERT INTO semel.live (id, queue, rank, due, open, joined, attempts, deferrals)
    SELECT unnest(job_ids), queue_id, 0, decided, true, decided, 0, 0;
    RETURN now;
END
$$;

REVOKE EXECUTE ON FUNCTION semel.add_plain FROM PUBLIC;
