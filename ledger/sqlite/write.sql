-- One entry, made or replaced. It runs in the transaction that has read it, which was begun IMMEDIATE.
INSERT INTO semel_ledger
    (consumer, key, step, owner, token, fence, fingerprint, since, until, done_at, expires_at, result)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
ON CONFLICT (consumer, key, step) DO UPDATE SET
    owner = excluded.owner, token = excluded.token, fence = excluded.fence, fingerprint = excluded.fingerprint,
    since = excluded.since, until = excluded.until, done_at = excluded.done_at, expires_at = excluded.expires_at,
    result = excluded.result
