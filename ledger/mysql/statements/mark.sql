-- Marks entries that are not there, or have expired, with the owner of this batch; others stay as they are. Rows come in
-- the order of their keys, so that two batches rarely wait for each other. The values of one row are repeated for each:
--
--     (owner, ttl, consumer, key, step)
--
-- The expiry is set last: MySQL assigns from left to right, and what is set sees what was set before it.
INSERT INTO semel_ledger_entry
    (owner, token, since, `until`, done_at, expires_at, consumer, `key`, step)
VALUES
    (?, 0,
     TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000,
     TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000,
     TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000,
     TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 + ?,
     ?, ?, ?)
ON DUPLICATE KEY UPDATE
    owner       = IF(expires_at <= VALUES(since), VALUES(owner), owner),
    token       = IF(expires_at <= VALUES(since), VALUES(token), token),
    fence       = IF(expires_at <= VALUES(since), NULL, fence),
    fingerprint = IF(expires_at <= VALUES(since), NULL, fingerprint),
    result      = IF(expires_at <= VALUES(since), NULL, result),
    `until`     = IF(expires_at <= VALUES(since), VALUES(`until`), `until`),
    done_at     = IF(expires_at <= VALUES(since), VALUES(done_at), done_at),
    since       = IF(expires_at <= VALUES(since), VALUES(since), since),
    expires_at  = IF(expires_at <= VALUES(done_at), VALUES(expires_at), expires_at)
