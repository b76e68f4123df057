-- Queues: their settings, their locks, and the lines of their groups.

-- What the functions need of a queue.
CREATE TYPE semel.rules AS (
    queue             integer,
    name              text,
    payload_limit     bigint,
    require_key       boolean,
    key_pattern       text,
    on_collision      text,
    collision_ignore  text[],
    on_dead           text,
    key_window        bigint,
    group_concurrency bigint,
    keep_completed    bigint,
    keep_dead         bigint,
    archives          boolean,
    has_breaker       boolean,
    -- Whether anything limits how many jobs are out.
    is_limited        boolean,
    gate              text
);

-- The rules of a queue as they are now; NULL if it was deleted.
--
-- This and what else runs for every publish is PL/pgSQL, because that keeps its plans for as long as the session lasts. A
-- function in SQL that is not part of another's plan is planned for every call.
CREATE FUNCTION semel.rules_of(queue integer) RETURNS semel.rules
LANGUAGE plpgsql AS $$
DECLARE
    rules semel.rules;
BEGIN
    SELECT q.id, q.name, c."payloadLimit", c."requireKey", c."keyPattern", c."onCollision",
           ARRAY(SELECT json_array_elements_text(c."collisionIgnore")), c."onDead", c."window", c."groupConcurrency",
           (c.retention ->> 'completed')::bigint, (c.retention ->> 'dead')::bigint, (c.retention ->> 'archive')::boolean,
           c.breaker IS NOT NULL,
           c.rate IS NOT NULL OR c.concurrency IS NOT NULL OR c."groupConcurrency" IS NOT NULL,
           q.gate
      INTO rules
      FROM semel.queue AS q,
           json_to_record(q.config::json) AS c (
               "payloadLimit" bigint, "requireKey" boolean, "keyPattern" text, "onCollision" text, "collisionIgnore" json,
               "onDead" text, "window" bigint, "groupConcurrency" bigint, retention json, breaker json, rate json,
               concurrency bigint
           )
     WHERE q.id = rules_of.queue AND NOT q.deleted;
    RETURN rules;
END
$$;

-- Whether a transaction sees what others commit while it runs.
CREATE FUNCTION semel.sees_others() RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT current_setting('transaction_isolation') IN ('read committed', 'read uncommitted')
$$;

-- A transaction that does not see what others commit must not decide by a queue that has changed since it began: then this
-- fails with 40001, after which such a transaction starts over. To lock the row tells; it is let go at once (see semel.jump_to),
-- because others have to change it while the transaction goes on.
CREATE FUNCTION semel.check_unchanged(queue integer) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM semel.queue WHERE id = check_unchanged.queue FOR SHARE;
    RAISE SQLSTATE 'SM000';
EXCEPTION WHEN SQLSTATE 'SM000' THEN
    RETURN;
END
$$;

-- Finds a queue and sees to it that it is not deleted before this transaction ends. This is a lock of its own, which only the
-- deletion of a queue takes alone: an application's transaction may be long, and must not keep nodes from leasing and settling.
CREATE FUNCTION semel.enter_queue(name text) RETURNS semel.rules
LANGUAGE plpgsql AS $$
DECLARE
    queue integer;
    rules semel.rules;
BEGIN
    LOOP
        SELECT q.id INTO queue FROM semel.queue AS q WHERE q.name = enter_queue.name AND NOT q.deleted;
        IF NOT FOUND THEN
            PERFORM semel.refuse(
                'queue_not_found',
                format('there is no queue %s: create it first', name),
                jsonb_build_object('code', 'queue_not_found', 'queue', name)::text
            );
        END IF;
        PERFORM pg_advisory_xact_lock_shared(x'53454d04'::integer, queue);
        IF NOT semel.sees_others() THEN
            PERFORM semel.check_unchanged(queue);
        END IF;
        rules := semel.rules_of(queue);
        EXIT WHEN rules.queue IS NOT NULL;
    END LOOP;
    RETURN rules;
END
$$;

-- Locks a queue for this transaction alone, as a node does that changes its gate or its lines.
CREATE FUNCTION semel.lock_queue(queue integer) RETURNS void
LANGUAGE sql AS $$
    SELECT pg_advisory_xact_lock(x'53454d03'::integer, queue)
$$;

-- The same for the lines of its groups. Who is in a line can only be told by a transaction that sees what others commit.
CREATE FUNCTION semel.lock_lines(queue integer) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT semel.sees_others() THEN
        PERFORM semel.refuse(
            'isolation',
            format('a job whose group limits it cannot be published or completed in a transaction that is %s',
                   upper(current_setting('transaction_isolation'))),
            '{"code": "isolation"}'
        );
    END IF;
    PERFORM semel.lock_queue(queue);
END
$$;

-- Opens the first who wait in the line of a group, as far as there is room; without a limit there is room for all. Says whether
-- anybody was opened.
CREATE FUNCTION semel.open_line(queue integer, grp text, most bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    room bigint := most - (
        SELECT count(*) FROM semel.live AS l WHERE l.queue = open_line.queue AND l.grp = open_line.grp AND l.open
    );
BEGIN
    UPDATE semel.live
       SET open = true
     WHERE id IN (SELECT l.id
                    FROM semel.live AS l
                   WHERE l.queue = open_line.queue AND l.grp = open_line.grp AND NOT l.open
                   ORDER BY l.joined, l.id
                   LIMIT CASE WHEN most IS NOT NULL THEN greatest(room, 0) END);
    RETURN FOUND;
END
$$;

-- Tells the nodes, once this transaction commits, that a queue may have a job for a worker. Transactions that tell something
-- commit one after the other, so one that needs to publish very often can do without: a node looks for itself all 15 seconds.
CREATE FUNCTION semel.tell_ready(queue text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('semel.notify', true) IS DISTINCT FROM 'off' THEN
        PERFORM pg_notify('semel', json_build_object('ready', json_build_object(queue, 1))::text);
    END IF;
END
$$;
