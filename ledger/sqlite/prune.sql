DELETE FROM semel_ledger
WHERE rowid IN (SELECT rowid FROM semel_ledger WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)
