-- The tables of a Semel store. PostgreSQL 13 or later, no extension, a database in UTF8.
--
-- Times are milliseconds since 1970 (bigint). Ids are the 63-bit integers of jobs: milliseconds since 2025 << 22, lane << 12,
-- sequence. JSON is kept as text: a payload must come back byte for byte, and jsonb refuses \u0000.
-- States: 0 pending, 1 processing, 2 awaiting ack, 3 completed, 4 dead, 5 cancelled.

DO $$
BEGIN
    -- Somebody may have made the schema already, for a role that may not make one.
    IF to_regnamespace('semel') IS NULL THEN
        CREATE SCHEMA semel;
    END IF;
END
$$;

-- What has been done to this schema. `needs` is the oldest version a program must know to go on working with it.
CREATE TABLE semel.migration (
    version    integer PRIMARY KEY,
    name       text NOT NULL,
    needs      integer NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- Small facts about the store. The epoch is the upper part of every fencing token: a store that may have lost tokens
-- (a restore, a replica that was promoted too early) goes on in a new one.
CREATE TABLE semel.meta (
    name  text COLLATE "C" PRIMARY KEY,
    value bigint NOT NULL
);

INSERT INTO semel.meta (name, value) VALUES ('epoch', 1);

-- Fencing tokens: epoch << 40 | counter. A sequence never hands out a number twice, not after a crash either.
CREATE SEQUENCE semel.token AS bigint START WITH 1099511627777;

-- Queues. A deleted one stays until its finished jobs are pruned; one made again under its name has a new id.
CREATE TABLE semel.queue (
    id         integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text COLLATE "C" NOT NULL,
    config     text NOT NULL,
    gate       text NOT NULL,
    secrets    text NOT NULL,
    created_at bigint NOT NULL,
    -- Rises with every change but the gate's.
    version    bigint NOT NULL DEFAULT 1,
    -- Whether a lease needs no lock: no rate, no concurrency, no groups that gate, the gate at rest.
    free       boolean NOT NULL,
    paused     boolean NOT NULL DEFAULT false,
    deleted    boolean NOT NULL DEFAULT false,
    -- The finished jobs up to this id were last looked at under other settings.
    sweep_to   bigint
) WITH (fillfactor = 50);

CREATE UNIQUE INDEX queue_name ON semel.queue (name) WHERE NOT deleted;

-- What was published. Appended once, rewritten only when it is stripped, dropped by the day.
CREATE TABLE semel.job (
    id          bigint NOT NULL PRIMARY KEY,
    queue       integer NOT NULL,
    created_at  bigint NOT NULL,
    run_at      bigint NOT NULL,
    priority    smallint NOT NULL,
    key         text COLLATE "C",
    grp         text COLLATE "C",
    gated       boolean NOT NULL,
    fingerprint bytea NOT NULL,
    -- NULL once the job has been stripped.
    payload     text,
    -- A JSON object of strings; NULL if there are none.
    metadata    text,
    -- What the job says for itself where the queue has a default, as JSON; NULL if nothing.
    overrides   text
) PARTITION BY RANGE (id);

CREATE INDEX job_group ON semel.job (grp, id) WHERE grp IS NOT NULL;

CREATE TABLE semel.job_default PARTITION OF semel.job DEFAULT;

-- Unfinished jobs and their leases: small and hot. A leased job has a token.
CREATE TABLE semel.live (
    id        bigint PRIMARY KEY,
    queue     integer NOT NULL,
    -- Priority, lowest first: -priority.
    rank      smallint NOT NULL,
    due       bigint NOT NULL,
    -- Whether the group lets it go out; true for a job that no group gates.
    open      boolean NOT NULL,
    -- The group in whose line it stands; NULL if none gates it.
    grp       text COLLATE "C",
    -- Its place in that line.
    joined    bigint NOT NULL,
    attempts  integer NOT NULL,
    deferrals integer NOT NULL,
    -- The rest of what has become of it; NULL when nothing has.
    progress  text,
    token     bigint,
    since     bigint,
    deadline  bigint,
    received  boolean NOT NULL DEFAULT false,
    -- The node that handed the lease out.
    node      integer
) WITH (
    fillfactor = 70,
    -- Every job passes through here, so dead rows come by the thousand and must go as fast.
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0
);

CREATE INDEX live_ready ON semel.live (queue, rank, due, id) WHERE token IS NULL AND open;
CREATE INDEX live_leased ON semel.live (queue, deadline, id) WHERE token IS NOT NULL;
CREATE INDEX live_line ON semel.live (queue, grp, open, joined, id) WHERE grp IS NOT NULL;

-- Finished jobs, dropped by the day.
CREATE TABLE semel.done (
    id          bigint NOT NULL PRIMARY KEY,
    queue       integer NOT NULL,
    state       smallint NOT NULL,
    due         bigint NOT NULL,
    finished_at bigint NOT NULL,
    attempts    integer NOT NULL,
    deferrals   integer NOT NULL,
    progress    text,
    -- The earliest time at which its retention can say something new.
    look_at     bigint NOT NULL
) PARTITION BY RANGE (id);

CREATE INDEX done_look ON semel.done (look_at, id);
-- Dead letters and cancelled jobs are few among many, and are what people list.
CREATE INDEX done_odd ON semel.done (queue, state, id) WHERE state <> 3;

CREATE TABLE semel.done_default PARTITION OF semel.done DEFAULT;

-- The kept jobs under each key, newest last; the newest of them, where there are many.
CREATE TABLE semel.key (
    queue integer NOT NULL,
    key   text COLLATE "C" NOT NULL,
    ids   bigint[] NOT NULL,
    PRIMARY KEY (queue, key)
) PARTITION BY HASH (queue, key);

DO $$
BEGIN
    FOR part IN 0..7 LOOP
        EXECUTE format(
            'CREATE TABLE semel.key_%s PARTITION OF semel.key FOR VALUES WITH (MODULUS 8, REMAINDER %s)'
            ' WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0)',
            part, part
        );
    END LOOP;
END
$$;

-- Older kept jobs of keys that have many: a key whose window is short and whose jobs are kept for long has one per publish.
CREATE TABLE semel.key_past (
    queue integer NOT NULL,
    key   text COLLATE "C" NOT NULL,
    id    bigint NOT NULL,
    PRIMARY KEY (queue, key, id)
);

-- Publishes that were answered with an earlier one's job.
CREATE TABLE semel.trace (
    job        bigint PRIMARY KEY,
    duplicates integer NOT NULL,
    suppressed text NOT NULL
);

-- Schedules, API keys and replay tasks, as JSON.
CREATE TABLE semel.record (
    kind text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (kind, name)
);

-- How the counts of a queue changed, one row per transaction and queue. Their sums are the counts; upkeep folds them.
CREATE TABLE semel.tally (
    queue      integer NOT NULL,
    unfinished bigint NOT NULL,
    completed  bigint NOT NULL,
    dead       bigint NOT NULL,
    cancelled  bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- Nodes that are up. The id is the lane of the ids they make; lane 1023 belongs to the SQL functions.
CREATE TABLE semel.node (
    id         integer PRIMARY KEY CHECK (id BETWEEN 0 AND 1022),
    name       text NOT NULL,
    address    text NOT NULL,
    version    text NOT NULL,
    started_at bigint NOT NULL,
    seen_at    bigint NOT NULL
) WITH (fillfactor = 50);

-- The highest id of each lane that was dropped: an id never comes back.
CREATE TABLE semel.lane (
    lane    integer PRIMARY KEY,
    last_id bigint NOT NULL
);

-- Makes the partitions of one day, counted from 2025-01-01. A day whose jobs are in the default partition already stays there.
CREATE FUNCTION semel.make_day(day integer) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    first  bigint := day::bigint * 86400000 * 4194304;
    past   bigint := (day::bigint + 1) * 86400000 * 4194304;
    suffix text := to_char(date '2025-01-01' + day, 'YYYYMMDD');
BEGIN
    -- A look into the catalogue: to_regclass may remember what was so before the caller waited for its lock.
    IF EXISTS (SELECT FROM pg_catalog.pg_class
               WHERE relnamespace = 'semel'::regnamespace AND relname = 'job_' || suffix)
        OR EXISTS (SELECT FROM semel.job_default WHERE id >= first AND id < past)
        OR EXISTS (SELECT FROM semel.done_default WHERE id >= first AND id < past)
    THEN
        RETURN false;
    END IF;
    EXECUTE format(
        'CREATE TABLE semel.job_%s PARTITION OF semel.job FOR VALUES FROM (%s) TO (%s)', suffix, first, past
    );
    EXECUTE format(
        'CREATE TABLE semel.done_%s PARTITION OF semel.done FOR VALUES FROM (%s) TO (%s)'
        ' WITH (autovacuum_vacuum_scale_factor = 0.05)', suffix, first, past
    );
    RETURN true;
END
$$;

-- Drops the partitions of days before this one that have no row left, and says how many days that were. The space of what was
-- pruned comes back at once then, without a vacuum.
CREATE FUNCTION semel.drop_empty_days(before integer) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    today    text := to_char(date '2025-01-01' + before, 'YYYYMMDD');
    suffix   text;
    is_empty boolean;
    dropped  integer := 0;
BEGIN
    FOR suffix IN
        SELECT substr(c.relname, 5)
          FROM pg_catalog.pg_inherits i
          JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
         WHERE i.inhparent = 'semel.job'::regclass AND c.relname ~ '^job_[0-9]{8}$' AND substr(c.relname, 5) < today
         ORDER BY 1
    LOOP
        -- Once without a lock, so that nobody waits for nothing, and once with it.
        FOR look IN 1..2 LOOP
            EXECUTE format(
                'SELECT NOT EXISTS (SELECT FROM semel.job_%1$s) AND NOT EXISTS (SELECT FROM semel.done_%1$s)', suffix
            ) INTO is_empty;
            EXIT WHEN NOT is_empty OR look = 2;
            EXECUTE format(
                'LOCK TABLE ONLY semel.job, ONLY semel.done, semel.job_%1$s, semel.done_%1$s IN ACCESS EXCLUSIVE MODE',
                suffix
            );
        END LOOP;
        IF is_empty THEN
            EXECUTE format('DROP TABLE semel.job_%1$s, semel.done_%1$s', suffix);
            dropped := dropped + 1;
        END IF;
    END LOOP;
    RETURN dropped;
END
$$;
