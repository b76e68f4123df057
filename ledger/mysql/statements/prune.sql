-- One bite of expired entries, oldest first. Run it at READ COMMITTED, where it locks nothing but what it removes.
DELETE FROM semel_ledger_entry
WHERE expires_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000
ORDER BY expires_at
LIMIT ?
