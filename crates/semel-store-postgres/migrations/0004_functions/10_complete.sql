-- Completing: the effect, its row in the ledger and the ack commit together.

-- The answer to a complete.
CREATE TYPE semel.completed AS (
    id       text,
    job      bigint,
    queue    text,
    -- Where the job stands: completed.
    state    text,
    -- Whether the same complete had taken effect before; then nothing has changed.
    repeated boolean,
    -- How long the delivery took; NULL for a repeat.
    took     interval
);

-- What is wrong with what a worker says about the effect.
CREATE FUNCTION semel.check_effect(effect json) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    wrong jsonb := semel.check_members(effect, 'effect', '{outcome,key}');
BEGIN
    IF wrong <> '[]' THEN
        RETURN wrong;
    END IF;
    RETURN semel.require(
               effect ->> 'outcome' IN ('applied', 'replayed', 'none'), 'effect.outcome', 'must be applied, replayed or none'
           )
        || semel.require(
               coalesce(json_typeof(semel.member(effect, 'key')) = 'string' AND char_length(effect ->> 'key') <= 255, true),
               'effect.key', 'must be text of at most 255 characters'
           );
END
$$;

-- What is wrong with a complete.
CREATE FUNCTION semel.check_complete(job text, lease text, result text, effect json) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
    SELECT semel.require(
               semel.read_base32('job_', job) >= 0, 'id',
               'a job id is ''job_'' and 13 base32 characters, as a publish returned it'
           )
        || semel.require(
               semel.read_base32('lse_', lease) IS NOT NULL, 'lease',
               'a lease token is ''lse_'' and 13 base32 characters, as the delivery carried it'
           )
        || semel.violation_if_any(
               'result',
               CASE WHEN octet_length(result) > 65536
                    THEN format('has %s bytes, at most 65536 are kept', octet_length(result))
                    ELSE semel.json_problem(result)
                END
           )
        || coalesce(semel.check_effect(effect), '[]')
$$;

-- What a gate learns from a delivery that succeeded: semel_core::gate::Gate::settled with Signal::Success.
CREATE FUNCTION semel.gate_after_success(gate jsonb, job bigint, has_breaker boolean) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    closed   jsonb := '{"closed": {"failures": 0}}';
    is_probe boolean := coalesce((gate ->> 'probe')::bigint = job, false);
BEGIN
    IF is_probe THEN
        gate := gate || '{"probe": null}';
        IF gate -> 'hold' = '"probing"' THEN
            gate := gate || '{"hold": "open"}';
        END IF;
    END IF;
    -- Only the probe is believed about a breaker that is not closed; one that has just opened stays open.
    IF NOT has_breaker OR gate -> 'breaker' ? 'closed' OR (is_probe AND gate -> 'breaker' ? 'halfOpen') THEN
        gate := gate || jsonb_build_object('breaker', closed);
    END IF;
    RETURN gate;
END
$$;

-- Tells the gate of a queue, which is locked, that a delivery succeeded. Says whether that changed anything.
CREATE FUNCTION semel.tell_gate(rules semel.rules, job bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    at_rest jsonb := '{"hold": "open", "breaker": {"closed": {"failures": 0}}, "probe": null}';
    told    jsonb := semel.gate_after_success(rules.gate::jsonb, job, rules.has_breaker);
BEGIN
    IF told = rules.gate::jsonb THEN
        RETURN false;
    END IF;
    UPDATE semel.queue
       SET gate = told::text,
           free = NOT rules.is_limited AND told @> at_rest
     WHERE id = rules.queue;
    RETURN true;
END
$$;

-- What the settle adds to the story of a job.
CREATE FUNCTION semel.story_of_success(held semel.live, now bigint, took bigint, result text, effect json) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    receipt text := ',"effect":{"outcome":' || to_json(effect ->> 'outcome')
        || coalesce(',"key":' || to_json(effect ->> 'key'), '') || '}';
BEGIN
    RETURN concat(
        '{"settled":{"token":', held.token, ',"verb":"ack"}', ',"result":' || to_json(result), receipt,
        ',"history":[{"number":', held.attempts + 1, ',"status":"success","at":', now, ',"duration":', took, receipt, '}]}'
    );
END
$$;

-- Locks a delivery, after whatever of its queue has to be locked with it: the lines if the job leaves one, or the gate if that
-- learns something (`told`). A gate that is at rest now learns nothing from a success, whatever happens to it later, so nobody
-- else is kept waiting for it. `held` is NULL if the job is not among the unfinished.
CREATE FUNCTION semel.lock_delivery(job bigint, OUT held semel.live, OUT told boolean)
LANGUAGE plpgsql AS $$
DECLARE
    rules semel.rules;
BEGIN
    SELECT * INTO held FROM semel.live WHERE id = job;
    rules := semel.rules_of(held.queue);
    told := semel.gate_after_success(rules.gate::jsonb, job, rules.has_breaker) <> rules.gate::jsonb;
    IF held.grp IS NOT NULL THEN
        PERFORM semel.lock_lines(held.queue);
    ELSIF told THEN
        PERFORM semel.lock_queue(held.queue);
    END IF;
    SELECT * INTO held FROM semel.live WHERE id = job FOR UPDATE;
END
$$;

-- Ends a delivery that is out: its job is completed.
CREATE FUNCTION semel.finish(held semel.live, told boolean, result text, effect json) RETURNS semel.completed
LANGUAGE plpgsql AS $$
DECLARE
    rules semel.rules := semel.rules_of(held.queue);
    now   bigint := semel.clock_millis();
    took  bigint := greatest(now - held.since, 0);
    -- A place has become free, a line has moved up, or a gate has opened: then others may go out.
    room  boolean := rules.is_limited;
BEGIN
    DELETE FROM semel.live WHERE id = held.id;
    INSERT INTO semel.done (id, queue, state, due, finished_at, attempts, deferrals, progress, look_at)
    VALUES (held.id, held.queue, 3, held.due, now, held.attempts + 1, held.deferrals,
            concat(held.progress, semel.story_of_success(held, now, took, result, effect)), now + rules.keep_completed);
    INSERT INTO semel.tally (queue, unfinished, completed, dead, cancelled) VALUES (held.queue, -1, 1, 0, 0);
    IF held.grp IS NOT NULL THEN
        room := semel.open_line(held.queue, held.grp, rules.group_concurrency) OR room;
    END IF;
    IF told THEN
        room := semel.tell_gate(rules, held.id) OR room;
    END IF;
    IF room THEN
        PERFORM semel.tell_ready(rules.name);
    END IF;
    RETURN ROW(
        semel.write_base32('job_', held.id), held.id, rules.name, 'completed'::text, false, took * interval '1 millisecond'
    );
END
$$;

-- Refuses a job that does not exist.
CREATE FUNCTION semel.refuse_missing(job bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    name text := semel.write_base32('job_', job);
BEGIN
    IF NOT EXISTS (SELECT FROM semel.job AS j WHERE j.id = job) THEN
        PERFORM semel.refuse(
            'job_not_found',
            format('there is no job %s: it was never published here, or its retention is over', name),
            jsonb_build_object('code', 'job_not_found', 'job', name)::text
        );
    END IF;
END
$$;

-- Refuses a lease that is not the current one.
CREATE FUNCTION semel.refuse_stale(job bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    id text := semel.write_base32('job_', job);
BEGIN
    PERFORM semel.refuse(
        'stale_lease',
        format('the lease of job %s is not yours any more: it ran out and was taken over, or was settled; drop this work', id),
        jsonb_build_object('code', 'stale_lease', 'job', id)::text
    );
END
$$;

-- The answer for a job that has ended: the complete is repeated, or it comes too late. NULL if the job has not ended.
CREATE FUNCTION semel.answer_ended(job bigint, token bigint) RETURNS semel.completed
LANGUAGE plpgsql AS $$
DECLARE
    ended record;
BEGIN
    SELECT d.state, d.progress, q.name INTO ended
      FROM semel.done AS d
      JOIN semel.queue AS q ON q.id = d.queue
     WHERE d.id = job;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    -- A job is completed by one ack. No string in that text can look like this: its quotes would be escaped.
    IF ended.state <> 3 OR strpos(ended.progress, format('"settled":{"token":%s,"verb":"ack"}', token)) = 0 THEN
        PERFORM semel.refuse_stale(job);
    END IF;
    RETURN ROW(semel.write_base32('job_', job), job, ended.name, 'completed'::text, true, NULL::interval);
END
$$;

-- Completes a job inside the caller's transaction. Only the delivery that carries this lease can; a repeat is recognised. If it
-- is refused, what the transaction did for the job must not be committed.
CREATE FUNCTION semel.complete(
    job    text,
    lease  text,
    result text DEFAULT NULL,   -- any JSON value, kept byte for byte
    effect json DEFAULT NULL    -- {"outcome": "applied" | "replayed" | "none", "key": "..."}
) RETURNS semel.completed
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
    wanted bigint;
    token  bigint;
    spot   record;
    answer semel.completed;
BEGIN
    PERFORM semel.refuse_invalid(semel.check_complete(job, lease, result, effect));
    wanted := semel.read_base32('job_', job);
    token := semel.read_base32('lse_', lease);
    -- A dead letter that is replayed just now may be missed in both tables. Once is bad luck.
    FOR attempt IN 1..10 LOOP
        spot := semel.lock_delivery(wanted);
        IF (spot.held).token = token THEN
            RETURN semel.finish(spot.held, spot.told, result, effect);
        ELSIF (spot.held).id IS NOT NULL THEN
            PERFORM semel.refuse_stale(wanted);
        END IF;
        answer := semel.answer_ended(wanted, token);
        IF answer.job IS NOT NULL THEN
            RETURN answer;
        END IF;
        PERFORM semel.refuse_missing(wanted);
    END LOOP;
    PERFORM semel.refuse(
        'damaged',
        format('job %s is neither among the unfinished jobs nor among the finished ones', job),
        jsonb_build_object('code', 'damaged', 'job', job)::text
    );
END
$$;

-- The same with a result that is JSON to PostgreSQL already, and with the number of the job instead of its name.
CREATE FUNCTION semel.complete(job text, lease text, result json, effect json DEFAULT NULL) RETURNS semel.completed
LANGUAGE sql AS $$
    SELECT * FROM semel.complete(job, lease, result::text, effect)
$$;

CREATE FUNCTION semel.complete(job text, lease text, result jsonb, effect json DEFAULT NULL) RETURNS semel.completed
LANGUAGE sql AS $$
    SELECT * FROM semel.complete(job, lease, result::text, effect)
$$;

CREATE FUNCTION semel.complete(job bigint, lease text, result text DEFAULT NULL, effect json DEFAULT NULL)
RETURNS semel.completed
LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT * FROM semel.complete(semel.write_base32('job_', job), lease, result, effect)
$$;
