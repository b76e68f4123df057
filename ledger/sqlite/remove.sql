DELETE FROM semel_ledger
WHERE consumer = ?1 AND key = ?2 AND step = ?3
