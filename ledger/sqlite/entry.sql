-- One entry, expired or not.
SELECT owner, token, fence, fingerprint, since, until, done_at, expires_at, result
FROM semel_ledger
WHERE consumer = ?1 AND key = ?2 AND step = ?3
