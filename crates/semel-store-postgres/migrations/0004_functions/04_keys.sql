-- Keys, groups and queue names: what they may look like.

-- What is wrong with a key or a group; NULL if nothing is.
CREATE FUNCTION semel.text_problem(name text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    RETURN CASE
        WHEN char_length(name) NOT BETWEEN 1 AND 255 THEN 'must be 1 to 255 characters long, got ' || char_length(name)
        WHEN name ~ '[\u0001-\u001f\u007f-\u009f]' THEN 'must not contain control characters'
    END;
END
$$;

-- Whether a key pattern means the same to PostgreSQL as to the server, whose regular expressions are others: characters, `.`,
-- `\d`, `\w`, `\s` and their opposites, escaped punctuation, plain classes and ranges, groups, alternatives, repetitions and
-- anchors. What is not among these (flags, Unicode classes, word boundaries, operations on classes) could match something else.
CREATE FUNCTION semel.is_common_pattern(pattern text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT pattern ~ (
        '^(?:'
        '[^][(){}.*+?|^$\\]'                            -- a character
        '|[.^$|)]'
        '|\((?:\?:|(?!\?))'                             -- ( or (?:
        '|\\[dDwWsS]'
        '|\\[^A-Za-z0-9<>]'                             -- escaped punctuation; \< and \> are word boundaries to the server
        '|[*+?]|\{[0-9]+(?:,[0-9]*)?\}'                 -- repetitions
        '|\[\^?-?'                                      -- a class: ranges, characters, shorthands; - first or last
            '(?:\\[dws]|(?:\\[^A-Za-z0-9<>]|[^][\\&~-])(?:-(?:\\[^A-Za-z0-9<>]|[^][\\&~-]))?)*'
        '-?\]'
        ')*$'
    )
$$;

-- Whether a whole key looks as a pattern says; NULL if PostgreSQL cannot tell as the server would. The classes \d, \w and \s know
-- all of Unicode there and only ASCII here, so a key with other characters is left to the server where they occur.
CREATE FUNCTION semel.key_fits(key text, pattern text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    IF NOT semel.is_common_pattern(pattern) OR (pattern ~ '\\[dDwWsS]' AND key ~ '[^\u0001-\u007f]') THEN
        RETURN NULL;
    END IF;
    RETURN key COLLATE "C" ~ ('^(?:' || pattern || ')$');
EXCEPTION WHEN invalid_regular_expression THEN
    -- What only the server takes, such as a repetition of a repetition.
    RETURN NULL;
END
$$;

-- Refuses a key that does not look as the queue wants it.
CREATE FUNCTION semel.check_key(key text, pattern text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    fits    boolean := semel.key_fits(key, pattern);
    details jsonb := jsonb_build_object('pattern', pattern);
BEGIN
    IF fits IS NULL THEN
        PERFORM semel.refuse(
            'pattern_unsupported',
            format('PostgreSQL may read the queue''s key pattern %s otherwise than the server does, so this key cannot be judged here', pattern),
            (details || '{"code": "pattern_unsupported"}')::text
        );
    ELSIF NOT fits THEN
        PERFORM semel.refuse(
            'key_pattern',
            format('the key does not match the queue''s pattern %s: send the business key it describes', pattern),
            (details || '{"code": "key_pattern"}')::text
        );
    END IF;
END
$$;
