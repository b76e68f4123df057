-- The end of an effect in the caller's own transaction: the result, in the place that `begin.sql` took.
UPDATE semel_ledger_entry
SET done_at = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000,
    expires_at = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 + ?,
    result = ?
WHERE consumer = ? AND `key` = ? AND step = ?
  AND owner = '' AND done_at IS NULL
