-- Publishing: a new job, or the one that holds the key.

-- The answer to a publish.
CREATE TYPE semel.published AS (
    -- The job as the HTTP API names it, and as the tables do.
    id              text,
    job             bigint,
    -- Where it stands.
    state           text,
    -- When it was published first.
    created_at      timestamptz,
    -- Whether this publish was answered with an earlier one's job.
    deduplicated    boolean,
    -- Whether the payload is that of the first publish.
    payload_matches boolean,
    -- How many publishes were answered with this job instead of a new one.
    duplicates      integer,
    -- When the key stops holding; NULL while the job is unfinished or has no key.
    key_expires_at  timestamptz
);

-- The newest job that was published under a key.
CREATE TYPE semel.holder AS (
    id          bigint,
    state       integer,
    created_at  bigint,
    finished_at bigint,
    released    boolean,
    key_window  bigint,
    fingerprint bytea,
    payload     text,
    priority    smallint,
    grp         text,
    gated       boolean
);

-- Whether a publish may add to the line of a group: that of a new job, or that of a dead letter that is revived.
CREATE FUNCTION semel.may_touch_line(rules semel.rules, draft semel.draft) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT rules.group_concurrency IS NOT NULL
       AND (draft.grp IS NOT NULL OR (draft.key IS NOT NULL AND rules.on_dead = 'revive'))
$$;

-- Refuses what the queue does not take.
CREATE FUNCTION semel.admit(rules semel.rules, draft semel.draft, now bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    size integer := octet_length(draft.payload);
BEGIN
    IF size > rules.payload_limit THEN
        PERFORM semel.refuse(
            'payload_too_large',
            format('the payload has %s bytes, the queue takes %s: store it elsewhere and send a reference',
                   size, rules.payload_limit),
            jsonb_build_object('code', 'payload_too_large', 'size', size, 'limit', rules.payload_limit)::text
        );
    END IF;
    PERFORM semel.refuse_invalid(
        semel.require(coalesce(draft.run_at <= now + 31536000000, true), 'runAt', 'must be at most 365d ahead')
    );
    IF draft.key IS NULL AND rules.require_key THEN
        PERFORM semel.refuse(
            'key_required',
            format('queue %s requires an idempotency key: send one that names the business event', rules.name),
            jsonb_build_object('code', 'key_required', 'queue', rules.name)::text
        );
    ELSIF draft.key IS NOT NULL AND rules.key_pattern IS NOT NULL THEN
        PERFORM semel.check_key(draft.key, rules.key_pattern);
    END IF;
END
$$;

-- A job, as far as it decides about its key.
CREATE FUNCTION semel.find_holder(job bigint) RETURNS semel.holder
LANGUAGE plpgsql AS $$
DECLARE
    holder semel.holder;
BEGIN
    IF job IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT j.id,
           coalesce(d.state, CASE WHEN l.token IS NULL THEN 0 WHEN l.received THEN 2 ELSE 1 END),
           j.created_at, d.finished_at,
           -- Nothing else in that text can look like this: in a string the quotes would be escaped.
           coalesce(strpos(coalesce(l.progress, d.progress), '"released":') > 0, false),
           (j.overrides::json ->> 'window')::bigint,
           j.fingerprint, j.payload, j.priority, j.grp, j.gated
      INTO holder
      FROM semel.job AS j
      LEFT JOIN semel.live AS l ON l.id = j.id
      LEFT JOIN semel.done AS d ON d.id = j.id
     WHERE j.id = job;
    RETURN holder;
END
$$;

-- Where a payload differs from the one that a key stands for, as a JSON array of pointers; NULL if it does not. Of one that is
-- no longer kept only a digest tells; one that was stripped in another store has none, and is taken to be the same.
CREATE FUNCTION semel.collides(holder semel.holder, payload text, ignored text[]) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    IF holder.payload IS NULL THEN
        RETURN CASE WHEN substr(holder.fingerprint, 17) NOT IN ('', sha256(convert_to(payload, 'UTF8'))) THEN '[]' END;
    ELSIF holder.payload = payload THEN
        RETURN NULL;
    END IF;
    RETURN nullif(semel.differences(holder.payload, payload, ignored), '[]');
END
$$;

-- Refuses a publish whose key stands for another payload.
CREATE FUNCTION semel.refuse_collision(holder semel.holder, pointers text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    id text := semel.write_base32('job_', holder.id);
BEGIN
    PERFORM semel.refuse(
        'key_collision',
        format('the key already stands for job %s with another payload (differs at: %s): use a key per business event',
               id, (SELECT string_agg(at #>> '{}', ', ') FROM json_array_elements(replace(pointers, '\u0000', '')::json) AS at)),
        format('{"code": "key_collision", "job": "%s", "pointers": %s}', id, pointers)
    );
END
$$;

-- Stores a new job; NULL if another publish has taken the key in the meantime. `newest` is the last job under the key, if there
-- was one.
CREATE FUNCTION semel.create_job(rules semel.rules, draft semel.draft, newest bigint, now bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    id     bigint := semel.next_id(now, newest);
    due    bigint := greatest(coalesce(now + draft.delay, draft.run_at, now), now);
    gated  boolean := draft.grp IS NOT NULL AND rules.group_concurrency IS NOT NULL;
    is_new boolean := draft.key IS NOT NULL AND newest IS NULL;
BEGIN
    IF is_new THEN
        INSERT INTO semel.key (queue, key, ids) VALUES (rules.queue, draft.key, ARRAY[id]) ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
    ELSIF draft.key IS NOT NULL THEN
        UPDATE semel.key AS k SET ids = k.ids || id WHERE k.queue = rules.queue AND k.key = draft.key;
    END IF;
    -- The fingerprint of a payload is a hash that PostgreSQL does not have. One byte says that whoever needs it has to make it.
    INSERT INTO semel.job (id, queue, created_at, run_at, priority, key, grp, gated, fingerprint, payload, metadata, overrides)
    VALUES (id, rules.queue, now, due, draft.priority, draft.key, draft.grp, gated, '\x00', draft.payload, draft.metadata,
            draft.overrides);
    INSERT INTO semel.live (id, queue, rank, due, open, grp, joined, attempts, deferrals)
    VALUES (id, rules.queue, -draft.priority, due, NOT gated, CASE WHEN gated THEN draft.grp END, now, 0, 0);
    INSERT INTO semel.tally (queue, unfinished, completed, dead, cancelled) VALUES (rules.queue, 1, 0, 0, 0);
    IF gated THEN
        PERFORM semel.open_line(rules.queue, draft.grp, rules.group_concurrency);
    END IF;
    PERFORM semel.tell_ready(rules.name);
    RETURN id;
END
$$;

-- Gives a dead letter another life; false if it is none any more.
CREATE FUNCTION semel.revive(rules semel.rules, holder semel.holder, now bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    ended semel.done;
BEGIN
    IF holder.gated THEN
        PERFORM semel.lock_lines(rules.queue);
        rules := semel.rules_of(rules.queue);
    END IF;
    DELETE FROM semel.done WHERE id = holder.id AND state = 4 RETURNING * INTO ended;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO semel.live (id, queue, rank, due, open, grp, joined, attempts, deferrals, progress)
    VALUES (ended.id, ended.queue, -holder.priority, now, NOT holder.gated, CASE WHEN holder.gated THEN holder.grp END, now, 0,
            ended.deferrals, concat(ended.progress, format('{"revived":%s}', now)));
    INSERT INTO semel.tally (queue, unfinished, completed, dead, cancelled) VALUES (ended.queue, 1, 0, -1, 0);
    IF holder.gated THEN
        PERFORM semel.open_line(rules.queue, holder.grp, rules.group_concurrency);
    END IF;
    PERFORM semel.tell_ready(rules.name);
    RETURN true;
END
$$;

-- Takes its key from a dead letter; false if it is none any more.
CREATE FUNCTION semel.release(rules semel.rules, holder semel.holder, now bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE semel.done
       SET progress = concat(progress, '{"released":"published again while dead (onDead: release)"}'),
           look_at = CASE WHEN rules.archives AND holder.payload IS NOT NULL THEN 9223372036854775807
                          ELSE greatest(finished_at + rules.keep_dead, now)
                      END
     WHERE id = holder.id AND state = 4;
    RETURN FOUND;
END
$$;

-- Keeps a trace of a publish that is answered with an earlier one's job, and counts it. Of the traces the newest eight are kept.
CREATE FUNCTION semel.trace_duplicate(duplicate_of bigint, publisher text, payload_matches boolean, now bigint)
RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    trace text := format(
        '{"at":%s%s,"payloadMatches":%s}', now, ',"publisher":' || to_json(publisher), to_json(payload_matches)
    );
    total integer;
BEGIN
    INSERT INTO semel.trace AS t (job, duplicates, suppressed) VALUES (duplicate_of, 1, '[' || trace || ']')
        ON CONFLICT (job) DO UPDATE
       SET duplicates = t.duplicates + 1,
           suppressed = (SELECT '[' || string_agg(kept.entry::text, ',' ORDER BY kept.place) || ',' || trace || ']'
                           FROM (SELECT old.entry, old.place
                                   FROM json_array_elements(t.suppressed::json) WITH ORDINALITY AS old (entry, place)
                                  ORDER BY old.place DESC
                                  LIMIT 7) AS kept)
    RETURNING t.duplicates INTO total;
    RETURN total;
END
$$;

-- The answer to a publish that made a job.
CREATE FUNCTION semel.answer_new(job bigint, now bigint) RETURNS semel.published
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ROW(
        semel.write_base32('job_', job), job, semel.state_name(0), semel.to_time(now), false, true, 0, NULL::timestamptz
    );
END
$$;

-- The answer to a publish that found one, which was revived or not.
CREATE FUNCTION semel.answer_found(
    holder semel.holder, ends bigint, revived boolean, payload_matches boolean, duplicates integer
) RETURNS semel.published
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ROW(
        semel.write_base32('job_', holder.id), holder.id, semel.state_name(CASE WHEN revived THEN 0 ELSE holder.state END),
        semel.to_time(holder.created_at), true, payload_matches, duplicates,
        CASE WHEN NOT revived THEN semel.to_time(ends) END
    );
END
$$;

-- Locks a key, and returns the newest job that was published under it; NULL if there is none, and nothing to lock.
CREATE FUNCTION semel.lock_key(queue integer, key text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    newest bigint;
BEGIN
    IF key IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT coalesce(k.ids[cardinality(k.ids)], 0) INTO newest
      FROM semel.key AS k
     WHERE k.queue = lock_key.queue AND k.key = lock_key.key
       FOR UPDATE;
    RETURN newest;
END
$$;

-- Decides a publish and carries it out; NULL if things have moved on meanwhile, and it has to be decided anew.
CREATE FUNCTION semel.try_publish(rules semel.rules, draft semel.draft) RETURNS semel.published
LANGUAGE plpgsql AS $$
DECLARE
    newest    bigint := semel.lock_key(rules.queue, draft.key);
    -- The time is told last, when all locks are held.
    now       bigint := semel.clock_millis();
    holder    semel.holder := semel.find_holder(newest);
    ends      bigint := holder.finished_at + coalesce(holder.key_window, rules.key_window);
    holds     boolean := holder.id IS NOT NULL AND NOT holder.released AND coalesce(now < ends, true);
    releases  boolean := holds AND holder.state = 4 AND rules.on_dead = 'release';
    revives   boolean := holds AND holder.state = 4 AND rules.on_dead = 'revive' AND holder.payload IS NOT NULL;
    pointers  text;
BEGIN
    IF releases AND NOT semel.release(rules, holder, now) THEN
        RETURN NULL;
    ELSIF releases OR NOT holds THEN
        RETURN semel.answer_new(semel.create_job(rules, draft, newest, now), now);
    END IF;
    pointers := semel.collides(holder, draft.payload, rules.collision_ignore);
    IF pointers IS NOT NULL AND rules.on_collision = 'reject' THEN
        PERFORM semel.refuse_collision(holder, pointers);
    END IF;
    IF revives AND NOT semel.revive(rules, holder, now) THEN
        RETURN NULL;
    END IF;
    RETURN semel.answer_found(
        holder, ends, revives, pointers IS NULL,
        semel.trace_duplicate(holder.id, draft.publisher, pointers IS NULL, now)
    );
END
$$;

-- Publishes a job inside the caller's transaction, or finds the one that holds its key. Nothing is seen or delivered before the
-- transaction commits, and nothing is left if it does not.
CREATE FUNCTION semel.publish(
    queue     text,
    payload   text,                        -- any JSON value, kept byte for byte
    key       text DEFAULT NULL,
    delay     interval DEFAULT NULL,       -- run this long after it was published
    run_at    timestamptz DEFAULT NULL,    -- or run at this time
    priority  integer DEFAULT 0,           -- -100 to 100, higher first
    "group"   text DEFAULT NULL,
    metadata  json DEFAULT NULL,           -- an object of strings
    options   json DEFAULT NULL,           -- maxAttempts, retry, timeout, window; spans in seconds
    publisher text DEFAULT NULL            -- who publishes, for the trace of duplicates
) RETURNS semel.published
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
    draft  semel.draft := semel.read_draft(queue, payload, key, delay, run_at, priority, "group", metadata, options, publisher);
    rules  semel.rules := semel.enter_queue(draft.queue);
    answer semel.published;
BEGIN
    IF semel.may_touch_line(rules, draft) THEN
        PERFORM semel.lock_lines(rules.queue);
        rules := semel.rules_of(rules.queue);
    END IF;
    PERFORM semel.admit(rules, draft, semel.clock_millis());
    LOOP
        answer := semel.try_publish(rules, draft);
        EXIT WHEN answer.job IS NOT NULL;
    END LOOP;
    RETURN answer;
END
$$;

-- The same with a payload that is JSON to PostgreSQL already. A json is kept as it is written, a jsonb as PostgreSQL writes it.
CREATE FUNCTION semel.publish(
    queue text, payload json, key text DEFAULT NULL, delay interval DEFAULT NULL, run_at timestamptz DEFAULT NULL,
    priority integer DEFAULT 0, "group" text DEFAULT NULL, metadata json DEFAULT NULL, options json DEFAULT NULL,
    publisher text DEFAULT NULL
) RETURNS semel.published
LANGUAGE sql AS $$
    SELECT * FROM semel.publish(queue, payload::text, key, delay, run_at, priority, "group", metadata, options, publisher)
$$;

CREATE FUNCTION semel.publish(
    queue text, payload jsonb, key text DEFAULT NULL, delay interval DEFAULT NULL, run_at timestamptz DEFAULT NULL,
    priority integer DEFAULT 0, "group" text DEFAULT NULL, metadata json DEFAULT NULL, options json DEFAULT NULL,
    publisher text DEFAULT NULL
) RETURNS semel.published
LANGUAGE sql AS $$
    SELECT * FROM semel.publish(queue, payload::text, key, delay, run_at, priority, "group", metadata, options, publisher)
$$;
