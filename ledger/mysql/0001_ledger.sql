-- The ledger on MariaDB 10.6 or MySQL 8.0, or later: two tables in the application's own database.
--
-- Run this file once, with whatever runs your migrations, or let `ensure_schema` do it. MySQL commits each statement by
-- itself, so every one of them may be run again.
--
-- Names are bytes and not text: no collation makes two keys equal. Times are milliseconds since 1970, by this server's
-- clock. JSON is kept as text, byte for byte.

CREATE TABLE IF NOT EXISTS semel_ledger_entry (
    consumer    VARBINARY(100) NOT NULL,
    `key`       VARBINARY(255) NOT NULL,
    step        VARBINARY(100) NOT NULL,     -- '' for a job as a whole
    owner       VARBINARY(64) NOT NULL,      -- of the last claim, or of the batch that marked it
    token       BIGINT UNSIGNED NOT NULL,    -- of the last claim: 1 for the first, one more for each take-over
    fence       BIGINT UNSIGNED,             -- the highest token of a queue
    fingerprint MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    since       BIGINT NOT NULL,             -- the first claim
    `until`     BIGINT NOT NULL,             -- the end of the lease
    done_at     BIGINT,
    expires_at  BIGINT,                      -- null: not before it is done
    result      LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    PRIMARY KEY (consumer, `key`, step),
    KEY semel_ledger_expiry (expires_at)     -- prune reads it from its left end
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS semel_ledger_migration (
    version    INT NOT NULL PRIMARY KEY,
    applied_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP
) ENGINE = InnoDB;

INSERT IGNORE INTO semel_ledger_migration (version) VALUES (1);
