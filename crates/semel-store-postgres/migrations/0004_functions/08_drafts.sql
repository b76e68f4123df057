-- Drafts: a publish as the application filled it in, read and checked as far as that can be done without knowing the queue.

-- A publish that has been read and checked.
CREATE TYPE semel.draft AS (
    queue     text,
    payload   text,
    key       text,
    delay     bigint,
    run_at    bigint,
    priority  integer,
    grp       text,
    metadata  text,
    overrides text,
    publisher text
);

-- What is wrong with the time at which a job is to run.
CREATE FUNCTION semel.check_time(delay interval, run_at timestamptz) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
    SELECT semel.require(delay IS NULL OR run_at IS NULL, 'delay', 'and runAt exclude each other: send one')
        || semel.require(coalesce(delay >= interval '0', true), 'delay', 'must not be negative')
        || semel.require(coalesce(extract(epoch FROM delay) <= 31536000, true), 'delay', 'must be at most 365d')
        || semel.require(coalesce(run_at >= timestamptz 'epoch', true), 'runAt', 'must not be before 1970')
$$;

-- Reads a publish, and refuses it if anything is wrong that can be told without knowing the queue.
CREATE FUNCTION semel.read_draft(
    queue text, payload text, key text, delay interval, run_at timestamptz, priority integer, grp text,
    metadata json, options json, publisher text
) RETURNS semel.draft
LANGUAGE plpgsql AS $$
DECLARE
    draft    semel.draft;
    mistakes jsonb;
    wrong    jsonb;
BEGIN
    wrong := semel.require(
                 queue ~ '^[A-Za-z0-9][-A-Za-z0-9_.:]{0,254}$', 'queue',
                 'a queue name is 1 to 255 letters, digits, ''-'', ''_'', ''.'' or '':'' and starts with a letter or digit'
             )
        || semel.require(payload IS NOT NULL, 'payload', 'is required: send any JSON value')
        -- A payload past every limit is refused for its size, and not read before.
        || semel.violation_if_any('payload', CASE WHEN octet_length(payload) <= 16777216 THEN semel.json_problem(payload) END)
        || semel.violation_if_any('idempotencyKey', semel.text_problem(key))
        || semel.check_time(delay, run_at)
        || semel.require(
               coalesce(priority, 0) BETWEEN -100 AND 100, 'priority', format('must be -100 to 100, got %s', priority)
           )
        || semel.violation_if_any('group', semel.text_problem(grp))
        || semel.require(coalesce(char_length(publisher) <= 255, true), 'publisher', 'must be at most 255 characters');
    IF options IS NOT NULL THEN
        SELECT o.overrides, o.wrong INTO draft.overrides, mistakes FROM semel.read_options(options) AS o;
        wrong := wrong || mistakes;
    END IF;
    IF metadata IS NOT NULL THEN
        SELECT m.entries, m.wrong INTO draft.metadata, mistakes FROM semel.read_metadata(metadata) AS m;
        wrong := wrong || mistakes;
    END IF;
    PERFORM semel.refuse_invalid(wrong);
    draft.queue := queue;
    draft.payload := payload;
    draft.key := key;
    draft.delay := round(extract(epoch FROM delay)::numeric * 1000);
    draft.run_at := CASE WHEN run_at = 'infinity' THEN 9223372036854775807 ELSE semel.to_millis(run_at) END;
    draft.priority := coalesce(priority, 0);
    draft.grp := grp;
    draft.publisher := publisher;
    RETURN draft;
END
$$;
