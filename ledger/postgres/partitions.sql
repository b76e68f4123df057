-- Optional, after the migrations: entries in partitions by the day on which they expire, so that prune drops whole days
-- instead of deleting rows. For ledgers that forget millions of entries a day; others do well without.
--
-- Run it once, in one transaction; it moves what is there. Nothing else changes for workers: they call the same functions.
--
-- What it costs: no constraint can span partitions, so writes lock their entry (an advisory lock of the database) and
-- look again; a constraint still decides within a day. Transactions must be READ COMMITTED, and others are refused. Who
-- still holds a claim, and whoever has no time to expire, is in the default partition.

ALTER TABLE semel_ledger.entry RENAME TO entry_before;
ALTER INDEX semel_ledger.entry_pkey RENAME TO entry_before_pkey;
ALTER INDEX semel_ledger.entry_expiry RENAME TO entry_before_expiry;
DROP FUNCTION semel_ledger.refusal;

CREATE TABLE semel_ledger.entry (LIKE semel_ledger.entry_before) PARTITION BY RANGE (expires_at);

CREATE TABLE semel_ledger.entry_default PARTITION OF semel_ledger.entry DEFAULT;
CREATE UNIQUE INDEX ON semel_ledger.entry_default (consumer, key, step);
CREATE INDEX ON semel_ledger.entry_default (expires_at) WHERE expires_at IS NOT NULL;

-- How far ahead there are partitions: the longest time to live, and a little more.
CREATE TABLE semel_ledger.partitioning (
    days integer NOT NULL CHECK (days > 0)
);

INSERT INTO semel_ledger.partitioning (days) VALUES (5);

-- As in the migration; it is about rows of the new table.
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

-- Whoever writes an entry holds its lock until the end of the transaction. It is only worth something if what others
-- committed meanwhile can be seen.
CREATE OR REPLACE FUNCTION semel_ledger.lock(_consumer text, _key text, _step text) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'a partitioned ledger needs READ COMMITTED, and this transaction is %',
            upper(current_setting('transaction_isolation'))
            USING ERRCODE = 'feature_not_supported';
    END IF;
    PERFORM pg_advisory_xact_lock(semel_ledger.lock_id(_consumer, _key, _step));
    RETURN true;
END
$$;

CREATE OR REPLACE FUNCTION semel_ledger.mark(_consumers text[], _keys text[], _steps text[], _ttl bigint) RETURNS SETOF boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _now bigint;
BEGIN
    -- In the order of their keys, so that two batches never wait for each other.
    PERFORM semel_ledger.lock(consumer, key, step)
    FROM (
        SELECT DISTINCT consumer COLLATE "C" AS consumer, key COLLATE "C" AS key, step COLLATE "C" AS step
        FROM unnest(_consumers, _keys, _steps) AS given (consumer, key, step)
        ORDER BY 1, 2, 3
        OFFSET 0
    ) AS sorted;
    _now := semel_ledger.clock();

    DELETE FROM semel_ledger.entry e
    USING unnest(_consumers, _keys, _steps) AS given (consumer, key, step)
    WHERE e.consumer = given.consumer AND e.key = given.key AND e.step = given.step AND e.expires_at <= _now;

    RETURN QUERY
    WITH given AS (
        SELECT consumer COLLATE "C" AS consumer, key COLLATE "C" AS key, step COLLATE "C" AS step, place
        FROM unnest(_consumers, _keys, _steps) WITH ORDINALITY AS given (consumer, key, step, place)
    ), made AS (
        INSERT INTO semel_ledger.entry AS e
            (consumer, key, step, owner, token, since, until, done_at, expires_at)
        SELECT DISTINCT consumer, key, step, '', 0, _now, _now, _now, _now + _ttl
        FROM given
        WHERE NOT EXISTS (
            SELECT FROM semel_ledger.entry e
            WHERE e.consumer = given.consumer AND e.key = given.key AND e.step = given.step
        )
        RETURNING e.consumer, e.key, e.step
    )
    SELECT made.key IS NOT NULL
       AND given.place = min(given.place) OVER (PARTITION BY given.consumer, given.key, given.step)
    FROM given LEFT JOIN made USING (consumer, key, step)
    ORDER BY given.place;
END
$$;

-- Makes the partitions of the days to come. A day for which there are entries in the default partition stays there.
CREATE FUNCTION semel_ledger.make_partitions() RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    _width CONSTANT bigint := 86400000;
    _today bigint := semel_ledger.clock() / _width;
    _days integer := (SELECT max(days) FROM semel_ledger.partitioning);
    _name text;
BEGIN
    FOR _day IN _today .. _today + _days LOOP
        _name := format('entry_%s', _day);
        CONTINUE WHEN to_regclass('semel_ledger.' || _name) IS NOT NULL;
        CONTINUE WHEN EXISTS (
            SELECT FROM semel_ledger.entry_default
            WHERE expires_at >= _day * _width AND expires_at < (_day + 1) * _width
        );
        EXECUTE format(
            'CREATE TABLE semel_ledger.%I PARTITION OF semel_ledger.entry FOR VALUES FROM (%s) TO (%s)',
            _name, _day * _width, (_day + 1) * _width
        );
        EXECUTE format('CREATE UNIQUE INDEX ON semel_ledger.%I (consumer, key, step)', _name);
    END LOOP;
END
$$;

-- Drops the days that are over, makes those to come, and takes a bite of whatever else has expired. It waits for nobody
-- for longer than a moment: a lock that cannot be had is left to the next prune.
CREATE OR REPLACE FUNCTION semel_ledger.prune(_limit integer) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    _width CONSTANT bigint := 86400000;
    _now bigint := semel_ledger.clock();
    _name text;
    _dropped bigint := 0;
    _rows bigint;
    _count integer;
BEGIN
    PERFORM set_config('lock_timeout', '200ms', true);
    BEGIN
        PERFORM semel_ledger.make_partitions();
        FOR _name IN
            SELECT c.relname
            FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
            WHERE i.inhparent = 'semel_ledger.entry'::regclass AND c.relname ~ '^entry_[0-9]+$'
              AND (substr(c.relname, 7)::bigint + 1) * _width <= _now
        LOOP
            EXECUTE format('SELECT count(*) FROM semel_ledger.%I', _name) INTO _rows;
            EXECUTE format('DROP TABLE semel_ledger.%I', _name);
            _dropped := _dropped + _rows;
        END LOOP;
    EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
        _dropped := 0;
    END;

    DELETE FROM semel_ledger.entry_default
    WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM semel_ledger.entry_default
        WHERE expires_at <= _now
        ORDER BY expires_at
        LIMIT _limit
        FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS _count = ROW_COUNT;
    RETURN least(_dropped + _count, 2147483647)::integer;
END
$$;

SELECT semel_ledger.make_partitions();

INSERT INTO semel_ledger.entry SELECT * FROM semel_ledger.entry_before;

DROP TABLE semel_ledger.entry_before;
