-- apply_known as it was, but for how it finds the deliveries that end. After an ANALYZE at a moment at which hardly any job was leased, the planner
-- took the index of leased jobs for as good as empty, and looked for each delivery by reading all of it: with some thousand jobs
-- leased, settles took several times as long.
CREATE OR REPLACE FUNCTION semel.apply_known(
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
        -- In this order whatever the planner knows of the table (found_in_live in row/live.rs). Inside, nothing but the id is asked for:
        -- that a token is not NULL, as any that equals another is, would allow the index of leased jobs.
        DELETE FROM semel.live l
         USING (SELECT * FROM unnest(ended, tokens) AS u (id, token) LIMIT cardinality(ended)) u
         CROSS JOIN LATERAL (
               SELECT ctid AS at, token, received, progress
                 FROM semel.live
                WHERE id = u.id
               OFFSET 0
               ) spot
         WHERE l.ctid = spot.at AND spot.token = u.token AND NOT spot.received AND spot.progress IS NULL;
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
