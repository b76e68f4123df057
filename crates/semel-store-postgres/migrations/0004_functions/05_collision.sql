-- The same key with another payload: is it really another, and where? Payloads are compared as JSON values, as
-- semel_core::collision does: see there for what counts as the same.

-- The members of an object. Of one that occurs twice the last counts.
CREATE FUNCTION semel.members(object json) RETURNS TABLE (name text, value json)
LANGUAGE sql IMMUTABLE AS $$
    SELECT DISTINCT ON (m.name COLLATE "C") m.name, m.value
      FROM json_each(object) WITH ORDINALITY AS m (name, value, place)
     ORDER BY m.name COLLATE "C", m.place DESC
$$;

-- Whether a pointer is one of those that may differ, or below one.
CREATE FUNCTION semel.is_ignored(pointer text, ignored text[]) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT EXISTS (SELECT FROM unnest(ignored) AS i (covers) WHERE pointer = covers OR starts_with(pointer, covers || '/'))
$$;

-- The members or elements of two values that are not written alike, each under its pointer, in order.
CREATE FUNCTION semel.unlike(path text, a json, b json) RETURNS TABLE (pointer text, in_a json, in_b json)
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF json_typeof(a) = 'object' THEN
        RETURN QUERY
            SELECT path || '/' || replace(replace(coalesce(x.name, y.name), '~', '~0'), '/', '~1'), x.value, y.value
              FROM semel.members(a) AS x
              FULL JOIN semel.members(b) AS y ON y.name COLLATE "C" = x.name COLLATE "C"
             WHERE x.value::text IS DISTINCT FROM y.value::text
             ORDER BY coalesce(x.name, y.name) COLLATE "C";
    ELSE
        RETURN QUERY
            SELECT path || '/' || (e.place - 1), e.x, e.y
              FROM ROWS FROM (json_array_elements(a), json_array_elements(b)) WITH ORDINALITY AS e (x, y, place)
             WHERE e.x::text IS DISTINCT FROM e.y::text
             ORDER BY e.place;
    END IF;
END
$$;

-- Whether two values that have no members are the same though they are written differently.
CREATE FUNCTION semel.same_scalar(a json, b json) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    x record;
    y record;
BEGIN
    IF json_typeof(a) = 'string' THEN
        RETURN (a #>> '{}') COLLATE "C" = (b #>> '{}') COLLATE "C";
    ELSIF json_typeof(a) <> 'number' THEN
        RETURN false;
    END IF;
    x := semel.read_number(a::text);
    y := semel.read_number(b::text);
    -- An exponent beyond any reason equals only what is written alike.
    RETURN x = y AND abs(x.exponent) < 9223372036854775807;
END
$$;

-- Adds where two values differ to what is listed already: at most 20 pointers, and 32 levels deep. A value that one of them does
-- not have is NULL.
CREATE FUNCTION semel.add_differences(
    list text[], path text, a json, b json, ignored text[], depth integer
) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    child record;
BEGIN
    IF cardinality(list) = 20 OR semel.is_ignored(path, ignored) THEN
        RETURN list;
    END IF;
    IF a IS NULL OR b IS NULL OR depth = 32 OR json_typeof(a) <> json_typeof(b) THEN
        RETURN list || path;
    END IF;
    IF json_typeof(a) NOT IN ('object', 'array') THEN
        RETURN CASE WHEN semel.same_scalar(a, b) THEN list ELSE list || path END;
    END IF;
    FOR child IN SELECT * FROM semel.unlike(path, a, b) LOOP
        list := semel.add_differences(list, child.pointer, child.in_a, child.in_b, ignored, depth + 1);
        EXIT WHEN cardinality(list) = 20;
    END LOOP;
    RETURN list;
END
$$;

-- A character that occurs in neither text, neither as such nor as an escape.
CREATE FUNCTION semel.unused_character(one text, other text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT chr(code)
      FROM generate_series(57344, 63743) AS code  -- the characters for private use
     WHERE strpos(one || other, chr(code)) = 0
       AND strpos(lower(one || other), '\u' || to_hex(code)) = 0
     LIMIT 1
$$;

-- Writes the escape \u0000, which PostgreSQL refuses to read, as another character. A pair of backslashes is no escape; it is
-- put aside as a character that JSON does not contain.
CREATE FUNCTION semel.legible(doc text, instead text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT replace(replace(replace(doc, '\\', chr(1)), '\u0000', instead), chr(1), '\\')
$$;

-- Where two payloads differ, as a JSON array of pointers; empty if they are the same apart from what may differ.
CREATE FUNCTION semel.differences(first text, second text, ignored text[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    nul   text := '';
    blank text := E' \t\n\r';
    list  text[];
BEGIN
    IF strpos(first || second, '\u0000') > 0 THEN
        nul := semel.unused_character(first, second);
        first := semel.legible(first, nul);
        second := semel.legible(second, nul);
    END IF;
    IF btrim(first, blank) = btrim(second, blank) THEN
        RETURN '[]';
    END IF;
    list := semel.add_differences('{}', '', btrim(first, blank)::json, btrim(second, blank)::json, ignored, 0);
    RETURN replace(to_json(list)::text, nul, '\u0000');
END
$$;
