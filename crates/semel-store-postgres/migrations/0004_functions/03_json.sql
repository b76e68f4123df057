-- JSON that comes in: what PostgreSQL takes but a worker's parser would choke on is refused here, as semel-core does.

-- A text in JSON without its strings.
CREATE FUNCTION semel.without_strings(doc text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT regexp_replace(doc, '"([^"\\]|\\.)*"', '', 'g')
$$;

-- Whether arrays and objects are nested more than 127 deep. Each round takes away the innermost.
CREATE FUNCTION semel.is_too_deep(doc text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    brackets text;
BEGIN
    -- Most texts have not so many brackets altogether.
    IF length(doc) - length(translate(doc, '[{', '')) <= 127 THEN
        RETURN false;
    END IF;
    brackets := regexp_replace(translate(semel.without_strings(doc), '{}', '[]'), '[^][]', '', 'g');
    FOR round IN 1..127 LOOP
        EXIT WHEN brackets = '';
        brackets := replace(brackets, '[]', '');
    END LOOP;
    RETURN brackets <> '';
END
$$;

-- Whether an escape names half a character: a surrogate without the other one. A pair of backslashes is no escape.
CREATE FUNCTION semel.has_lone_surrogate(doc text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF strpos(doc, '\u') = 0 THEN
        RETURN false;
    END IF;
    RETURN regexp_replace(
        replace(doc, '\\', '--'), '\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}', '', 'g'
    ) ~ '\\u[dD][89a-fA-F]';
END
$$;

-- A number in its one normal form, as collisions compare it: 0.`digits` x 10^`exponent`, without zeros at either end.
CREATE FUNCTION semel.read_number(number text, OUT negative boolean, OUT digits text, OUT exponent numeric)
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    parts text[] := regexp_match(number, '^-?([0-9]+)(?:\.([0-9]+))?(?:[eE]([-+]?[0-9]+))?$');
    every text := parts[1] || coalesce(parts[2], '');
BEGIN
    digits := ltrim(every, '0');
    IF digits = '' THEN
        -- There is one zero, however it is signed or scaled.
        negative := false;
        exponent := 0;
        RETURN;
    END IF;
    negative := starts_with(number, '-');
    exponent := coalesce(parts[3], '0')::numeric + length(parts[1]) - (length(every) - length(digits));
    digits := rtrim(digits, '0');
END
$$;

-- Whether a number is past the range of a double, 1.797693134862315807937e308 and up, which most parsers refuse or make
-- infinite. Only one with a large exponent or very many digits can be.
CREATE FUNCTION semel.has_huge_number(doc text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF doc !~ '[0-9][eE][+]?0*[1-9][0-9]{2}|[0-9]{255}' THEN
        RETURN false;
    END IF;
    RETURN EXISTS (
        SELECT
          FROM regexp_matches(
                   semel.without_strings(doc), '-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?', 'g'
               ) AS written (number),
               semel.read_number(written.number[1]) AS n
         WHERE n.exponent > 309 OR (n.exponent = 309 AND n.digits >= '1797693134862315807937' COLLATE "C")
    );
END
$$;

-- What is wrong with a text that should be JSON; NULL if nothing is.
CREATE FUNCTION semel.json_problem(doc text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    parsed  json;
    problem text;
BEGIN
    -- First, because PostgreSQL itself has no limit but its stack.
    IF semel.is_too_deep(doc) THEN
        RETURN 'is not valid JSON: it is nested more than 127 deep, or not every bracket is closed';
    END IF;
    BEGIN
        parsed := doc::json;
    EXCEPTION WHEN invalid_text_representation THEN
        GET STACKED DIAGNOSTICS problem = PG_EXCEPTION_DETAIL;
        RETURN 'is not valid JSON: ' || problem;
    END;
    RETURN CASE
        WHEN semel.has_lone_surrogate(doc) THEN 'is not valid JSON: an escape names half a character (a lone surrogate)'
        WHEN semel.has_huge_number(doc) THEN 'is not valid JSON: a number is out of range'
    END;
END
$$;
