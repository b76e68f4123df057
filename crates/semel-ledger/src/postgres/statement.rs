//! The calls of the protocol. They fit on one connection, pooled or not: nothing is prepared, and no session is needed.

pub(super) const CLAIM: &str =
    "SELECT verdict, now, token, since, until, recovering, fence, fingerprint, done_at, expires_at, result
     FROM semel_ledger.claim($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";

pub(super) const RENEW: &str = "SELECT until, now FROM semel_ledger.renew($1, $2, $3, $4, $5, $6)";

pub(super) const COMPLETE: &str = "SELECT semel_ledger.complete($1, $2, $3, $4, $5, $6, $7)";

pub(super) const RELEASE: &str = "SELECT semel_ledger.release($1, $2, $3, $4, $5, $6)";

pub(super) const MARK: &str = "SELECT semel_ledger.mark($1, $2, $3, $4)";

pub(super) const LOOKUP: &str =
    "SELECT now, token, since, until, fence, fingerprint, done_at, expires_at, result
     FROM semel_ledger.lookup($1, $2, $3)";

/// Nobody waits for the disk: what a crash brings back has expired, and is not there for any answer.
pub(super) const PRUNE: &str = "SELECT semel_ledger.prune($1), set_config('synchronous_commit', 'off', true)";

pub(super) const BEGIN: &str = "SELECT semel_ledger.begin($1, $2, $3, $4, $5)";

pub(super) const RECORD: &str = "CALL semel_ledger.record($1, $2, $3, $4, $5, $6, $7)";

/// Whether there is a ledger at all; then [`VERSION`] can be asked. It reads the catalogue: `to_regclass` would answer from a
/// cache that does not know yet what was made while this session waited for [`ALONE`].
pub(super) const EXISTS: &str = "SELECT EXISTS (
         SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
         WHERE n.nspname = 'semel_ledger' AND c.relname = 'migration'
     )";

pub(super) const VERSION: &str = "SELECT coalesce(max(version), 0) FROM semel_ledger.migration";

/// Before a migration: whoever comes second finds it done.
pub(super) const ALONE: &str =
    "SELECT pg_advisory_xact_lock(hashtextextended('semel_ledger.migration', 4705))";
