-- What a publish may carry besides its payload: options that override the queue's, and metadata. Names, units and limits are
-- those of the HTTP API.

-- A number of JSON that is not out of all reason; NULL if it is none.
CREATE FUNCTION semel.plain_number(value json) RETURNS numeric
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN value::text ~ '^-?[0-9]{1,20}(?:\.[0-9]{1,20})?(?:[eE][-+]?[0-9]{1,2})?$' THEN value::text::numeric END
$$;

-- A span in seconds, as milliseconds; NULL if it is none. Fractions down to a millisecond are kept.
CREATE FUNCTION semel.span(seconds json) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT round(n * 1000)::bigint FROM semel.plain_number(seconds) AS n WHERE n BETWEEN 0 AND 100000000000
$$;

-- A member of an object; NULL if it is null, too.
CREATE FUNCTION semel.member(object json, name text) RETURNS json
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN json_typeof(object -> name) <> 'null' THEN object -> name END
$$;

-- What is wrong with the members of an object: it is none, or it has others than are known.
CREATE FUNCTION semel.check_members(object json, field text, known text[]) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    -- Options are members of a publish; only what is below them is named after its place.
    path  text := CASE WHEN field <> 'options' THEN field || '.' ELSE '' END;
    wrong jsonb;
BEGIN
    IF json_typeof(object) <> 'object' THEN
        RETURN semel.violation(field, 'must be a JSON object');
    END IF;
    SELECT coalesce(jsonb_agg(semel.violation(path || name, 'is not known here: leave it out') -> 0), '[]') INTO wrong
      FROM json_object_keys(object) AS name
     WHERE name <> ALL (known);
    RETURN wrong;
EXCEPTION WHEN untranslatable_character OR invalid_text_representation THEN
    RETURN semel.violation(field, 'has text that PostgreSQL cannot read, such as \u0000');
END
$$;

-- A retry policy as it is stored, and what is wrong with it.
CREATE FUNCTION semel.read_retry(retry json, OUT policy json, OUT wrong jsonb)
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    strategy text := coalesce(semel.member(retry, 'strategy') #>> '{}', 'exponential');
    jitter   text := coalesce(semel.member(retry, 'jitter') #>> '{}', 'full');
    factor   json := coalesce(semel.member(retry, 'factor'), '3.0');
    base     bigint := semel.span(coalesce(semel.member(retry, 'base'), '5'));
    cap      bigint := semel.span(coalesce(semel.member(retry, 'cap'), '1800'));
BEGIN
    wrong := semel.check_members(retry, 'retry', '{strategy,base,factor,cap,jitter}')
        || semel.require(strategy IN ('exponential', 'fixed'), 'retry.strategy', 'must be exponential or fixed')
        || semel.require(jitter IN ('full', 'none'), 'retry.jitter', 'must be full or none')
        || semel.require(base <= 86400000, 'retry.base', 'must be a number of seconds, at most 1d')
        || semel.require(semel.plain_number(factor) BETWEEN 1 AND 10, 'retry.factor', 'must be a number from 1 to 10')
        || semel.require(cap <= 604800000, 'retry.cap', 'must be a number of seconds, at most 7d')
        || semel.require(coalesce(base <= cap, true), 'retry.cap', 'must not be shorter than retry.base');
    policy := json_build_object('strategy', strategy, 'base', base, 'factor', factor, 'cap', cap, 'jitter', jitter);
END
$$;

-- The options of a publish as they are stored (NULL if there are none), and what is wrong with them.
CREATE FUNCTION semel.read_options(options json, OUT overrides text, OUT wrong jsonb)
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    attempts json;
    retry    record;
    timeout  json;
    keeps    json;
BEGIN
    wrong := semel.check_members(options, 'options', '{maxAttempts,retry,timeout,window}');
    IF wrong <> '[]' THEN
        RETURN;
    END IF;
    attempts := semel.member(options, 'maxAttempts');
    timeout := semel.member(options, 'timeout');
    keeps := semel.member(options, 'window');
    SELECT r.policy, r.wrong INTO retry
      FROM semel.member(options, 'retry') AS asked, semel.read_retry(asked) AS r
     WHERE asked IS NOT NULL;
    wrong := semel.require(
                 attempts IS NULL OR (attempts::text ~ '^[0-9]{1,9}$' AND attempts::text::integer BETWEEN 1 AND 100),
                 'maxAttempts', format('must be from 1 to 100, got %s', attempts)
             )
        || coalesce(retry.wrong, '[]')
        || semel.require(
               timeout IS NULL OR semel.span(timeout) BETWEEN 1000 AND 43200000, 'timeout', 'must be 1s to 12h'
           )
        || semel.require(keeps IS NULL OR semel.span(keeps) <= 31536000000, 'window', 'must be at most 365d');
    IF wrong = '[]' AND num_nonnulls(attempts, retry.policy, timeout, keeps) > 0 THEN
        overrides := json_strip_nulls(json_build_object(
            'max_attempts', attempts, 'retry', retry.policy, 'timeout', semel.span(timeout), 'window', semel.span(keeps)
        ))::text;
    END IF;
END
$$;

-- What is wrong with one entry of metadata; NULL if nothing is.
CREATE FUNCTION semel.entry_problem(name text, value json, is_second boolean, place bigint) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
               WHEN json_typeof(value) <> 'string' THEN 'must be a JSON object of strings; see entry ' || place
               WHEN octet_length(name) NOT BETWEEN 1 AND 1024 OR octet_length(value #>> '{}') > 1024
                   THEN 'names are 1 to 1024 bytes and values at most as many; see entry ' || place
               WHEN is_second THEN format('has the name "%s" twice', name)
           END
$$;

-- The metadata of a publish as it is stored (NULL if there is none), and what is wrong with it.
CREATE FUNCTION semel.read_metadata(metadata json, OUT entries text, OUT wrong jsonb)
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    total integer;
BEGIN
    IF json_typeof(metadata) <> 'object' THEN
        wrong := semel.violation('metadata', 'must be a JSON object of strings');
        RETURN;
    END IF;
    SELECT count(*),
           '{' || string_agg(to_json(m.name) || ':' || to_json(m.value #>> '{}'), ',' ORDER BY m.place) || '}',
           coalesce(jsonb_agg(semel.violation('metadata', p.problem) -> 0) FILTER (WHERE p.problem IS NOT NULL), '[]')
      INTO total, entries, wrong
      FROM (SELECT e.name, e.value, e.place - 1 AS place,
                   row_number() OVER (PARTITION BY e.name COLLATE "C" ORDER BY e.place) > 1 AS is_second
              FROM json_each(metadata) WITH ORDINALITY AS e (name, value, place)) AS m,
           semel.entry_problem(m.name, m.value, m.is_second, m.place) AS p (problem);
    wrong := wrong || semel.require(total <= 32, 'metadata', format('has %s entries, at most 32 are kept', total));
EXCEPTION WHEN untranslatable_character OR invalid_text_representation THEN
    wrong := semel.violation('metadata', 'has text that PostgreSQL cannot read, such as \u0000');
END
$$;
