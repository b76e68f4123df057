-- Entries as they stand, expired ones included, and the time by this server's clock. The condition is repeated for each,
-- joined by OR. Those that a batch has marked are found in the same way: they have its owner.
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 AS now,
       owner, token, fence, fingerprint, since, `until`, done_at, expires_at, result, consumer, `key`, step
FROM semel_ledger_entry
WHERE
    (consumer = ? AND `key` = ? AND step = ?)
