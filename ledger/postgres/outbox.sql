-- Semel's outbox for PostgreSQL 14 and later, version 1. It may be run again at any time.
--
-- A row is one publish. The application inserts it in its own transaction; a relay carries it to the server under its
-- key and deletes it. Any language may insert:
--
--     INSERT INTO semel_outbox (queue, payload, idempotency_key, job_group)
--     VALUES ('orders', '{"order": 17}', 'order-17', NULL);
--
-- Without a key a row gets one of its own, which stays with it: however often a relay dies in between, it is published once.

CREATE TABLE IF NOT EXISTS semel_outbox (
    -- The order of publishes within a group.
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue           text        NOT NULL,
    idempotency_key text        NOT NULL DEFAULT gen_random_uuid()::text,
    -- Rows of one group and queue are published in their order. NULL: in no particular one.
    job_group       text,
    -- json and not jsonb: it is published byte for byte.
    payload         json        NOT NULL,
    -- Other members of a publish, named as in the HTTP API: {"priority": 5, "metadata": {"origin": "till"}}.
    options         json,
    created_at      timestamptz NOT NULL DEFAULT now(),
    -- Set when the server refused it. Such a row is dead: it stays, and those of its group behind it wait, until somebody
    -- has it tried again or discards it.
    dead_at         timestamptz,
    dead_code       text,
    dead_reason     text
);

-- What a relay takes next.
CREATE INDEX IF NOT EXISTS semel_outbox_waiting ON semel_outbox (id) WHERE dead_at IS NULL;

-- Who is in front of a row in its group.
CREATE INDEX IF NOT EXISTS semel_outbox_groups ON semel_outbox (queue, job_group, id) WHERE job_group IS NOT NULL;

-- What people look at.
CREATE INDEX IF NOT EXISTS semel_outbox_dead ON semel_outbox (queue, job_group, id) WHERE dead_at IS NOT NULL;

-- Wakes relays when a transaction that inserted commits. They look by themselves once a second, so an application that
-- commits very often may drop the trigger, and pays with that second.
CREATE OR REPLACE FUNCTION semel_outbox_wake() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('semel_outbox', '');
    RETURN NULL;
END
$$;

CREATE OR REPLACE TRIGGER semel_outbox_wake
    AFTER INSERT ON semel_outbox
    FOR EACH STATEMENT EXECUTE FUNCTION semel_outbox_wake();
