-- Refusals: the domain says no, and nothing has changed. Each has an SQLSTATE of class SM, the words of the HTTP API as its
-- message, JSON with the API's stable code as its detail, and what to do next as its hint.

CREATE FUNCTION semel.refuse(code text, message text, details text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    reason record;
BEGIN
    SELECT known.* INTO STRICT reason
      FROM (VALUES
               ('invalid',             'SM001', 'Mend every field that is named.'),
               ('queue_not_found',     'SM002', 'Create the queue first: PUT /v1/queues/{queue}.'),
               ('key_required',        'SM003', 'Pass a key that names the business event.'),
               ('key_pattern',         'SM004', 'Pass the business key that the pattern describes.'),
               ('payload_too_large',   'SM005', 'Store it elsewhere and publish a reference.'),
               ('key_collision',       'SM006', 'Use one key per business event, or list what may differ in the queue''s collisionIgnore.'),
               ('job_not_found',       'SM007', 'It was never published here, or its retention is over.'),
               ('stale_lease',         'SM008', 'Roll back and drop this work: another delivery has taken over, or has settled it.'),
               ('damaged',             'SM009', 'Run semel doctor on the store, and restore from a backup if it confirms the damage.'),
               ('pattern_unsupported', 'SM010', 'Publish through the HTTP API, or give the queue a keyPattern without what is named.'),
               ('isolation',           'SM011', 'Use READ COMMITTED for this transaction, or publish through the HTTP API.')
           ) AS known (code, state, hint)
     WHERE known.code = refuse.code;
    RAISE EXCEPTION USING ERRCODE = reason.state, MESSAGE = message, DETAIL = details, HINT = reason.hint;
END
$$;

-- One thing wrong with one field.
CREATE FUNCTION semel.violation(field text, problem text) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_build_array(jsonb_build_object('field', field, 'problem', problem))
$$;

-- The same unless something holds; what is not known does not.
CREATE FUNCTION semel.require(holds boolean, field text, problem text) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN holds THEN '[]' ELSE semel.violation(field, problem) END
$$;

-- The same if there is a problem.
CREATE FUNCTION semel.violation_if_any(field text, problem text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN semel.require(problem IS NULL, field, problem);
END
$$;

-- Refuses what is not valid; every field that is wrong is named at once.
CREATE FUNCTION semel.refuse_invalid(violations jsonb) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF violations = '[]' THEN
        RETURN;
    END IF;
    PERFORM semel.refuse(
        'invalid',
        (SELECT string_agg(v->>'field' || ': ' || (v->>'problem'), '; ' ORDER BY place)
           FROM jsonb_array_elements(violations) WITH ORDINALITY AS found (v, place)),
        jsonb_build_object('code', 'invalid', 'violations', violations)::text
    );
END
$$;
