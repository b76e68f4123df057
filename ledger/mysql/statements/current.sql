-- The entry as it is now, whatever the transaction has seen before; no other transaction changes it before this one ends.
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 AS now,
       owner, token, fence, fingerprint, since, `until`, done_at, expires_at, result
FROM semel_ledger_entry
WHERE consumer = ? AND `key` = ? AND step = ?
LOCK IN SHARE MODE
