-- Gives a claim up as if it had never been, if it is still the holder's.
DELETE FROM semel_ledger_entry
WHERE consumer = ? AND `key` = ? AND step = ? AND owner = ? AND token = ?
  AND done_at IS NULL
  AND (expires_at IS NULL
       OR expires_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000)
