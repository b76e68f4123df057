-- Semel's outbox for SQLite, version 1. It may be run again at any time.
--
-- A row is one publish. The application inserts it in its own transaction; a relay carries it to the server under its
-- key and deletes it. Any language may insert:
--
--     INSERT INTO semel_outbox (queue, payload, idempotency_key, job_group)
--     VALUES ('orders', '{"order": 17}', 'order-17', NULL);
--
-- Without a key a row gets one of its own, which stays with it: however often a relay dies in between, it is published once.

CREATE TABLE IF NOT EXISTS semel_outbox (
    -- The order of publishes within a group. AUTOINCREMENT: the number of a deleted row is not given out again.
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    queue           TEXT    NOT NULL,
    idempotency_key TEXT    NOT NULL DEFAULT (lower(hex(randomblob(16)))),
    -- Rows of one group and queue are published in their order. NULL: in no particular one.
    job_group       TEXT,
    -- JSON, published byte for byte.
    payload         TEXT    NOT NULL,
    -- Other members of a publish, named as in the HTTP API: {"priority": 5, "metadata": {"origin": "till"}}.
    options         TEXT,
    created_at      TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    -- Set when the server refused it. Such a row is dead: it stays, and those of its group behind it wait, until somebody
    -- has it tried again or discards it.
    dead_at         TEXT,
    dead_code       TEXT,
    dead_reason     TEXT
);

-- Who is in front of a row in its group.
CREATE INDEX IF NOT EXISTS semel_outbox_groups ON semel_outbox (queue, job_group, id) WHERE job_group IS NOT NULL;

-- What people look at.
CREATE INDEX IF NOT EXISTS semel_outbox_dead ON semel_outbox (id) WHERE dead_at IS NOT NULL;
