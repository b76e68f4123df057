-- The result of an effect, in its own transaction. Whoever was not the first gets a constraint violation.
INSERT INTO semel_ledger
    (consumer, key, step, owner, token, fence, fingerprint, since, until, done_at, expires_at, result)
VALUES (?1, ?2, ?3, '', 1, ?4, ?5, ?6, ?6, ?6, ?7, ?8)
