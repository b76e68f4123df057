-- Records a result, if the entry is still the holder's. If no row matches, it may have done so before: read.
UPDATE semel_ledger_entry
SET done_at = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000,
    expires_at = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 + ?,
    result = ?
WHERE consumer = ? AND `key` = ? AND step = ? AND owner = ? AND token = ?
  AND done_at IS NULL
  AND (expires_at IS NULL
       OR expires_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000)
