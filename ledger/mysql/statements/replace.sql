-- A claim in the place of the entry that was read, if it is still as it was. That it is not (no row matches) means that
-- somebody was faster: read again.
UPDATE semel_ledger_entry
SET owner = ?,
    token = ?,
    fence = ?,
    fingerprint = ?,
    since = ?,
    `until` = ?,
    done_at = ?,
    expires_at = ?,
    result = ?
WHERE consumer = ? AND `key` = ? AND step = ?
  AND owner = ? AND token = ? AND `until` = ? AND done_at <=> ? AND expires_at <=> ?
