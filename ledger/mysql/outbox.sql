-- Semel's outbox for MySQL 8.0.13 and MariaDB 10.6 and later, version 1. It may be run again at any time.
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
    id              BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    queue           VARCHAR(255) NOT NULL,
    idempotency_key VARCHAR(255) NOT NULL DEFAULT (UUID()),
    -- Rows of one group and queue are published in their order. NULL: in no particular one.
    job_group       VARCHAR(255),
    -- Text and not JSON: it is published byte for byte.
    payload         LONGTEXT     NOT NULL,
    -- Other members of a publish, named as in the HTTP API: {"priority": 5, "metadata": {"origin": "till"}}.
    options         LONGTEXT,
    created_at      DATETIME(3)  NOT NULL DEFAULT (UTC_TIMESTAMP(3)),
    -- Set when the server refused it. Such a row is dead: it stays, and those of its group behind it wait, until somebody
    -- has it tried again or discards it.
    dead_at         DATETIME(3),
    dead_code       VARCHAR(64),
    dead_reason     TEXT,
    -- Who is in front of a row in its group.
    INDEX semel_outbox_groups (queue, job_group, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
