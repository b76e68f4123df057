-- The ledger on PostgreSQL 13 or later, in a schema of its own. No extension is needed.
--
-- Run this file once, in one transaction, with whatever runs your migrations; or let `ensure_schema` do it.
-- The functions and procedures are the protocol: every language calls them, and nobody writes to the table by hand.
-- Times are milliseconds since 1970, by this server's clock. JSON is kept as text, byte for byte.

CREATE SCHEMA IF NOT EXISTS semel_ledger;

CREATE TABLE semel_ledger.migration (
    version    integer PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now()
);

INSERT INTO semel_ledger.migration (version) VALUES (1);

CREATE TABLE semel_ledger.entry (
    consumer    text COLLATE "C" NOT NULL,
    key         text COLLATE "C" NOT NULL,
    step        text COLLATE "C" NOT NULL,  -- '' for a job as a whole
    owner       text COLLATE "C" NOT NULL,  -- of the last claim; '' where nothing was claimed
    token       bigint NOT NULL,            -- of the last claim: 1 for the first, one more for each take-over
    fence       bigint,                     -- the highest token of a queue
    fingerprint text,
    since       bigint NOT NULL,            -- the first claim
    until       bigint NOT NULL,            -- the end of the lease
    done_at     bigint,
    expires_at  bigint,                     -- null: not before it is done
    result      text,
    PRIMARY KEY (consumer, key, step)
);

-- Prune reads it from its left end.
CREATE INDEX entry_expiry ON semel_ledger.entry (expires_at) WHERE expires_at IS NOT NULL;

-- The clock that moves within a transaction: a statement may have waited for a lock since its transaction began.
CREATE FUNCTION semel_ledger.clock() RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
$$;

-- Whether an entry had to be locked, so that what was read before must be read again. Here the primary key decides, and
-- nothing is locked; partitions.sql replaces this.
CREATE FUNCTION semel_ledger.lock(_consumer text, _key text, _step text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT false
$$;

-- The number of an entry among the database's advisory locks.
CREATE FUNCTION semel_ledger.lock_id(_consumer text, _key text, _step text) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT hashtextextended(_consumer || E'\n' || _key || E'\n' || _step, 4705)
$$;

-- What a claim comes to, given the entry that is there; null means that it is granted.
CREATE FUNCTION semel_ledger.refusal(
    _entry semel_ledger.entry, _fence bigint, _fingerprint text, _spent boolean, _window bigint, _now bigint
) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN _entry.expires_at <= _now THEN NULL
        WHEN _entry.fingerprint <> _fingerprint THEN 'collision'
        WHEN _entry.done_at IS NOT NULL THEN 'done'
        WHEN _entry.fence > _fence THEN 'stale'
        WHEN _entry.until > _now THEN 'busy'
        WHEN _spent OR _entry.since + _window <= _now THEN 'spent'
    END
$$;

-- Claims an entry. The columns that the verdict does not need are null.
--
-- Nothing is locked before it is known that something will be written: replays only read. The primary key decides who
-- is first, and a take-over counts only if the entry is still as it was read.
CREATE FUNCTION semel_ledger.claim(
    _consumer text, _key text, _step text, _owner text, _fence bigint, _fingerprint text,
    _lease bigint, _spent boolean, _window bigint, _ttl bigint,
    OUT verdict text, OUT now bigint, OUT token bigint, OUT since bigint, OUT until bigint, OUT recovering boolean,
    OUT fence bigint, OUT fingerprint text, OUT done_at bigint, OUT expires_at bigint, OUT result text
)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _entry semel_ledger.entry;
    _expires bigint;
    _locked boolean := false;
BEGIN
    LOOP
        SELECT * INTO _entry FROM semel_ledger.entry
        WHERE consumer = _consumer AND key = _key AND step = _step;
        now := semel_ledger.clock();
        recovering := _entry.token IS NOT NULL AND (_entry.expires_at IS NULL OR _entry.expires_at > now);

        IF recovering THEN
            verdict := semel_ledger.refusal(_entry, _fence, _fingerprint, _spent, _window, now);
            IF verdict IS NOT NULL THEN
                token := _entry.token;
                since := _entry.since;
                until := _entry.until;
                fence := _entry.fence;
                fingerprint := _entry.fingerprint;
                done_at := _entry.done_at;
                expires_at := _entry.expires_at;
                result := _entry.result;
                RETURN;
            END IF;
        END IF;

        IF NOT _locked AND semel_ledger.lock(_consumer, _key, _step) THEN
            _locked := true;
            CONTINUE;
        END IF;

        token := CASE WHEN recovering THEN _entry.token + 1 ELSE 1 END;
        since := CASE WHEN recovering THEN _entry.since ELSE now END;
        until := now + _lease;
        _expires := CASE WHEN _spent THEN until + _ttl END;
        IF _entry.token IS NULL THEN
            INSERT INTO semel_ledger.entry
                (consumer, key, step, owner, token, fence, fingerprint, since, until, expires_at)
            VALUES (_consumer, _key, _step, _owner, claim.token, _fence, _fingerprint, now, claim.until, _expires)
            ON CONFLICT DO NOTHING;
        ELSE
            UPDATE semel_ledger.entry e
            SET owner = _owner,
                token = claim.token,
                fence = CASE WHEN recovering THEN greatest(e.fence, _fence) ELSE _fence END,
                fingerprint = CASE WHEN recovering THEN coalesce(e.fingerprint, _fingerprint) ELSE _fingerprint END,
                since = claim.since,
                until = claim.until,
                done_at = NULL,
                expires_at = _expires,
                result = NULL
            WHERE consumer = _consumer AND key = _key AND step = _step
              AND e.owner = _entry.owner AND e.token = _entry.token AND e.until = _entry.until
              AND e.done_at IS NOT DISTINCT FROM _entry.done_at;
        END IF;

        IF FOUND THEN
            verdict := 'granted';
            RETURN;
        END IF;
        -- Somebody was faster: see what they left.
    END LOOP;
END
$$;

-- Extends a lease; no row if it is not the holder's any more.
CREATE FUNCTION semel_ledger.renew(
    _consumer text, _key text, _step text, _owner text, _token bigint, _lease bigint
) RETURNS TABLE (until bigint, now bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _locked boolean := semel_ledger.lock(_consumer, _key, _step);
    _now bigint := semel_ledger.clock();
BEGIN
    RETURN QUERY
    UPDATE semel_ledger.entry e
    SET until = _now + _lease,
        expires_at = CASE WHEN e.expires_at IS NOT NULL THEN greatest(e.expires_at, _now + _lease) END
    WHERE consumer = _consumer AND key = _key AND step = _step AND owner = _owner AND token = _token
      AND done_at IS NULL AND (expires_at IS NULL OR expires_at > _now)
    RETURNING e.until, _now;
END
$$;

-- Records a result; false if the entry is not the holder's any more. Doing it again changes nothing.
CREATE FUNCTION semel_ledger.complete(
    _consumer text, _key text, _step text, _owner text, _token bigint, _result text, _ttl bigint
) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    _locked boolean := semel_ledger.lock(_consumer, _key, _step);
    _now bigint := semel_ledger.clock();
BEGIN
    UPDATE semel_ledger.entry
    SET done_at = _now, expires_at = _now + _ttl, result = _result
    WHERE consumer = _consumer AND key = _key AND step = _step AND owner = _owner AND token = _token
      AND done_at IS NULL AND (expires_at IS NULL OR expires_at > _now);
    IF FOUND THEN
        RETURN true;
    END IF;
    RETURN EXISTS (
        SELECT FROM semel_ledger.entry
        WHERE consumer = _consumer AND key = _key AND step = _step AND owner = _owner AND token = _token
          AND done_at IS NOT NULL AND expires_at > _now
    );
END
$$;

-- Gives a claim up, false if it is not the holder's any more: removes it, or ends its lease now.
CREATE FUNCTION semel_ledger.release(
    _consumer text, _key text, _step text, _owner text, _token bigint, _forget boolean
) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    _locked boolean := semel_ledger.lock(_consumer, _key, _step);
    _now bigint := semel_ledger.clock();
BEGIN
    IF _forget THEN
        DELETE FROM semel_ledger.entry
        WHERE consumer = _consumer AND key = _key AND step = _step AND owner = _owner AND token = _token
          AND done_at IS NULL AND (expires_at IS NULL OR expires_at > _now);
    ELSE
        UPDATE semel_ledger.entry
        SET until = least(until, _now)
        WHERE consumer = _consumer AND key = _key AND step = _step AND owner = _owner AND token = _token
          AND done_at IS NULL AND (expires_at IS NULL OR expires_at > _now);
    END IF;
    RETURN FOUND;
END
$$;

-- Marks entries as done and says which of them were not there, in the given order. Rows are locked in the order of
-- their keys, so that two batches never wait for each other.
CREATE FUNCTION semel_ledger.mark(_consumers text[], _keys text[], _steps text[], _ttl bigint) RETURNS SETOF boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _now bigint := semel_ledger.clock();
BEGIN
    RETURN QUERY
    WITH given AS (
        SELECT consumer COLLATE "C" AS consumer, key COLLATE "C" AS key, step COLLATE "C" AS step, place
        FROM unnest(_consumers, _keys, _steps) WITH ORDINALITY AS given (consumer, key, step, place)
    ), made AS (
        INSERT INTO semel_ledger.entry AS e
            (consumer, key, step, owner, token, since, until, done_at, expires_at)
        SELECT DISTINCT consumer, key, step, '', 0, _now, _now, _now, _now + _ttl
        FROM given
        ORDER BY consumer, key, step
        ON CONFLICT (consumer, key, step) DO UPDATE
        SET owner = '', token = 0, fence = NULL, fingerprint = NULL, since = _now, until = _now,
            done_at = _now, expires_at = _now + _ttl, result = NULL
        WHERE e.expires_at <= _now
        RETURNING e.consumer, e.key, e.step
    )
    SELECT made.key IS NOT NULL
       AND given.place = min(given.place) OVER (PARTITION BY given.consumer, given.key, given.step)
    FROM given LEFT JOIN made USING (consumer, key, step)
    ORDER BY given.place;
END
$$;

-- What is known about entries, in the given order; token is null where there is none.
CREATE FUNCTION semel_ledger.lookup(_consumers text[], _keys text[], _steps text[])
RETURNS TABLE (
    now bigint, token bigint, since bigint, until bigint,
    fence bigint, fingerprint text, done_at bigint, expires_at bigint, result text
)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _now bigint := semel_ledger.clock();
BEGIN
    RETURN QUERY
    SELECT _now, e.token, e.since, e.until, e.fence, e.fingerprint, e.done_at, e.expires_at, e.result
    FROM unnest(_consumers, _keys, _steps) WITH ORDINALITY AS given (consumer, key, step, place)
    LEFT JOIN semel_ledger.entry e
      ON e.consumer = given.consumer AND e.key = given.key AND e.step = given.step
     AND (e.expires_at IS NULL OR e.expires_at > _now)
    ORDER BY given.place;
END
$$;

-- Removes up to so many expired entries, and says how many. It waits for nobody.
--
-- What was removed stays in the index until it is vacuumed, so a bite that began where the index does would read all that the
-- bites before it removed. It begins where the last one of its session ended, which is a setting of the session, and when there
-- is less than it may take, once more from the start: an entry that somebody held may have been left behind.
CREATE FUNCTION semel_ledger.prune(_limit integer) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    _now bigint := semel_ledger.clock();
    _from bigint := coalesce(nullif(current_setting('semel_ledger.pruned_to', true), ''), '0');
    _places tid[];
    _to bigint;
    _count integer := 0;
BEGIN
    LOOP
        SELECT array_agg(e.place), max(e.expires_at) INTO _places, _to
        FROM (
            SELECT ctid AS place, expires_at FROM semel_ledger.entry
            WHERE expires_at >= _from AND expires_at <= _now
            ORDER BY expires_at
            LIMIT _limit - _count
            FOR UPDATE SKIP LOCKED
        ) e;
        DELETE FROM semel_ledger.entry WHERE ctid = ANY (_places);
        _count := _count + coalesce(cardinality(_places), 0);
        EXIT WHEN _count = _limit OR _from = 0;
        _from := 0;
    END LOOP;
    PERFORM set_config('semel_ledger.pruned_to', CASE WHEN _count = _limit THEN _to::text ELSE '' END, false);
    RETURN _count;
END
$$;

-- The start of an effect in the caller's own transaction: null if it is to be done, otherwise why not, as a JSON object
-- with the columns of claim. Nearly all calls are answered null, and that is the cheapest of answers.
--
-- A duplicate does not wait for the transaction of the first: it is 'busy' at once. The lock only saves the wait; the
-- primary key decides when the result is recorded.
CREATE FUNCTION semel_ledger.begin(_consumer text, _key text, _step text, _fence bigint, _fingerprint text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    _free boolean := pg_try_advisory_xact_lock(semel_ledger.lock_id(_consumer, _key, _step));
    _entry semel_ledger.entry;
    _now bigint;
    _verdict text;
BEGIN
    -- A statement of its own, after the lock: it sees what the last holder of the lock committed.
    SELECT * INTO _entry FROM semel_ledger.entry
    WHERE consumer = _consumer AND key = _key AND step = _step;
    IF NOT FOUND AND _free THEN
        RETURN NULL;
    END IF;

    _now := semel_ledger.clock();
    IF _entry.token IS NOT NULL THEN
        _verdict := semel_ledger.refusal(_entry, _fence, _fingerprint, true, NULL, _now);
    END IF;
    IF _verdict IS NULL AND _free THEN
        -- It has expired, and makes room for the one that is recorded.
        DELETE FROM semel_ledger.entry
        WHERE consumer = _consumer AND key = _key AND step = _step AND expires_at <= _now;
        RETURN NULL;
    END IF;
    RETURN json_build_object(
        'verdict', coalesce(_verdict, 'busy'), 'now', _now, 'token', _entry.token, 'since', _entry.since,
        -- The other transaction has no lease.
        'until', CASE WHEN _verdict = 'busy' THEN _entry.until END,
        'fence', _entry.fence, 'fingerprint', _entry.fingerprint,
        'done_at', _entry.done_at, 'expires_at', _entry.expires_at, 'result', _entry.result
    );
END
$$;

-- The same as a procedure, for those who ask in one message with BEGIN: a CALL is not planned, and where nothing is known of
-- the key nothing but its absence is read.
CREATE PROCEDURE semel_ledger.open(
    _consumer text, _key text, _step text, _fence bigint, _fingerprint text, INOUT answer text
)
LANGUAGE plpgsql AS $$
DECLARE
    _free boolean := pg_try_advisory_xact_lock(semel_ledger.lock_id(_consumer, _key, _step));
BEGIN
    -- A statement of its own, after the lock: it sees what the last holder of the lock committed.
    PERFORM FROM semel_ledger.entry WHERE consumer = _consumer AND key = _key AND step = _step;
    IF FOUND OR NOT _free THEN
        answer := semel_ledger.begin(_consumer, _key, _step, _fence, _fingerprint);
    END IF;
END
$$;

-- The end of it: the result, in the same transaction. If another was faster, this is a unique violation, and the
-- transaction must be rolled back: then ask again. A procedure, because a CALL is not planned.
CREATE PROCEDURE semel_ledger.record(
    _consumer text, _key text, _step text, _fence bigint, _fingerprint text, _result text, _ttl bigint
)
LANGUAGE plpgsql AS $$
DECLARE
    _locked boolean := semel_ledger.lock(_consumer, _key, _step);
    _now bigint := semel_ledger.clock();
BEGIN
    INSERT INTO semel_ledger.entry
        (consumer, key, step, owner, token, fence, fingerprint, since, until, done_at, expires_at, result)
    VALUES (_consumer, _key, _step, '', 1, _fence, _fingerprint, _now, _now, _now, _now + _ttl, _result);
END
$$;
