-- A claim where there was no entry. That there is one now (error 1062) means that somebody was faster: read again.
INSERT INTO semel_ledger_entry
    (owner, token, fence, fingerprint, since, `until`, done_at, expires_at, result, consumer, `key`, step)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
