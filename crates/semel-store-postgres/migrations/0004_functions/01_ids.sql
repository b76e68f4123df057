-- Functions that let an application publish and complete inside its own transaction, from any language. They follow the rules
-- of semel-core to the letter: the conformance suite and the model test run through them.
--
-- `semel.publish` and `semel.complete` are for applications. They run with the rights of their owner (SECURITY DEFINER), so
-- an application needs no right on a table. All others serve these two.

-- What time it is, in milliseconds since 1970: the database's clock, as for everything else.
CREATE FUNCTION semel.clock_millis() RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
$$;

-- The lane of the ids that are made here. Nodes have the others.
CREATE FUNCTION semel.sql_lane() RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT 1023::bigint
$$;

-- The place of the last id in that lane: milliseconds since 2025 << 12, and a number within the millisecond. A sequence hands
-- nothing out twice, whatever is rolled back.
CREATE SEQUENCE semel.sql_place AS bigint MINVALUE 0 START WITH 0;

-- Moves the sequence up, as time does. Only one may move it at a time, or the slower would move it back; who finds that somebody
-- else is at it waits a moment. And nobody may have to wait for the end of an application's transaction: an advisory lock that
-- was taken in a block is given back when the block fails, while what was done to a sequence stays done.
CREATE FUNCTION semel.move_place(lowest bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock(x'53454d05'::integer, 0) THEN
        PERFORM pg_sleep(0.0001);
    ELSIF (SELECT last_value FROM semel.sql_place) < lowest THEN
        PERFORM setval('semel.sql_place', lowest, false);
    END IF;
    RAISE SQLSTATE 'SM000';
EXCEPTION WHEN SQLSTATE 'SM000' THEN
    RETURN;
END
$$;

-- The next id: not before `now`, and above the id `above` if there is one, which may be of any lane.
CREATE FUNCTION semel.next_id(now bigint, above bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    lowest bigint := greatest(now - 1735689600000, 0) << 12;
    place  bigint;
    id     bigint;
BEGIN
    LOOP
        place := nextval('semel.sql_place');
        id := ((place >> 12) << 22) | (semel.sql_lane() << 12) | (place & 4095);
        IF place >= lowest AND id > coalesce(above, -1) THEN
            RETURN id;
        END IF;
        -- Past a place in the same millisecond as `above` there is always one in the next.
        IF place >= lowest THEN
            lowest := ((above >> 22) + 1) << 12;
        END IF;
        PERFORM semel.move_place(lowest);
    END LOOP;
END
$$;

-- An id or a token as people see it: a prefix, and 13 characters of Crockford's base32.
CREATE FUNCTION semel.write_base32(prefix text, raw bigint) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    code text := prefix;
BEGIN
    FOR place IN REVERSE 12..0 LOOP
        code := code || substr('0123456789abcdefghjkmnpqrstvwxyz', ((raw >> (5 * place)) & 31)::integer + 1, 1);
    END LOOP;
    RETURN code;
END
$$;

-- The integer behind it; NULL if it is none. Above the largest bigint it is negative, as which no id and no token is stored.
CREATE FUNCTION semel.read_base32(prefix text, code text) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    digits text := substr(code, length(prefix) + 1);
    bits   text;
BEGIN
    IF NOT starts_with(code, prefix) OR digits !~ '^[0-9abcdefghjkmnpqrstvwxyz]{13}$' THEN
        RETURN NULL;
    END IF;
    SELECT string_agg((strpos('0123456789abcdefghjkmnpqrstvwxyz', digit) - 1)::bit(5)::text, '' ORDER BY place)
      INTO bits
      FROM regexp_split_to_table(digits, '') WITH ORDINALITY AS d (digit, place);
    -- 13 digits are 65 bits, one more than there are.
    RETURN CASE WHEN starts_with(bits, '0') THEN substr(bits, 2)::bit(64)::bigint END;
END
$$;

-- A time as PostgreSQL has it.
CREATE FUNCTION semel.to_time(millis bigint) RETURNS timestamptz
LANGUAGE sql STABLE AS $$
    SELECT timestamptz 'epoch' + millis * interval '1 millisecond'
$$;

-- A time in milliseconds since 1970, parts of one dropped.
CREATE FUNCTION semel.to_millis(at timestamptz) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT floor(extract(epoch FROM at)::numeric * 1000)::bigint
$$;

-- The name of a state.
CREATE FUNCTION semel.state_name(state integer) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT ('{pending,processing,awaiting_ack,completed,dead,cancelled}'::text[])[state + 1]
$$;
