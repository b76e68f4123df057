-- The start of an effect in the caller's own transaction: the entry's place is taken until the transaction ends. It is
-- not done, and `record.sql` makes it so in the same transaction.
--
-- Error 1062: there is an entry, see what it says. Error 1205: another transaction is at it. MariaDB says so at once;
-- MySQL, for which the first line is a comment, waits for the other one's end first.
/*M! SET STATEMENT innodb_lock_wait_timeout = 0 FOR */
INSERT INTO semel_ledger_entry
    (owner, token, fence, fingerprint, since, `until`, consumer, `key`, step)
VALUES
    ('', 1, ?, ?,
     TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000,
     TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000,
     ?, ?, ?)
