-- The ledger on SQLite 3.42 or later, in the application's own database.
--
-- Run this file once, in one transaction, with whatever runs your migrations; or let `ensure_schema` do it.
-- Times are milliseconds since 1970, by the clock of this machine. JSON is kept as text, byte for byte.

CREATE TABLE semel_ledger_migration (
    version    INTEGER PRIMARY KEY,
    applied_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
) STRICT;

INSERT INTO semel_ledger_migration (version) VALUES (1);

CREATE TABLE semel_ledger (
    consumer    TEXT NOT NULL,
    key         TEXT NOT NULL,
    step        TEXT NOT NULL,     -- '' for a job as a whole
    owner       TEXT NOT NULL,     -- of the last claim; '' where nothing was claimed
    token       INTEGER NOT NULL,  -- of the last claim: 1 for the first, one more for each take-over
    fence       INTEGER,           -- the highest token of a queue
    fingerprint TEXT,
    since       INTEGER NOT NULL,  -- the first claim
    until       INTEGER NOT NULL,  -- the end of the lease
    done_at     INTEGER,
    expires_at  INTEGER,           -- null: not before it is done
    result      TEXT,
    PRIMARY KEY (consumer, key, step)
) STRICT;

-- Prune reads it from its left end.
CREATE INDEX semel_ledger_expiry ON semel_ledger (expires_at) WHERE expires_at IS NOT NULL;
