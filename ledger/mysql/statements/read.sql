-- The entry, if there is one, and the time by this server's clock in any case.
SELECT clock.now, e.owner, e.token, e.fence, e.fingerprint, e.since, e.`until`, e.done_at, e.expires_at, e.result
FROM (SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 AS now) AS clock
LEFT JOIN semel_ledger_entry AS e ON e.consumer = ? AND e.`key` = ? AND e.step = ?
