//! What the server is asked. All of it can be seen by the role that owns the schema; what others do on the same server it sees
//! in part.

use crate::clock::database_now;
use crate::session::Sql;

/// The settings that matter, as they are for a connection of this role.
pub(super) static SETTINGS: Sql = Sql {
    text: "SELECT name, current_setting(name)
             FROM pg_catalog.pg_settings
            WHERE name IN ('autovacuum', 'fsync', 'full_page_writes', 'max_connections', 'max_wal_size', 'server_version',
                           'shared_buffers', 'synchronous_commit', 'synchronous_standby_names', 'wal_level')",
    types: &[],
};

/// Tables, with their partitions as one.
pub(super) static TABLES: Sql = Sql {
    text: "SELECT coalesce(whole.relname, c.relname)::text,
                  count(whole.oid),
                  sum(greatest(c.reltuples::bigint, s.n_live_tup, 0))::bigint,
                  sum(coalesce(s.n_dead_tup, 0))::bigint,
                  sum(pg_catalog.pg_table_size(c.oid))::bigint AS bytes,
                  sum(pg_catalog.pg_indexes_size(c.oid))::bigint,
                  floor(extract(epoch FROM max(greatest(s.last_vacuum, s.last_autovacuum))) * 1000)::bigint
             FROM pg_catalog.pg_class c
             LEFT JOIN pg_catalog.pg_inherits i ON i.inhrelid = c.oid
             LEFT JOIN pg_catalog.pg_class whole ON whole.oid = i.inhparent
             LEFT JOIN pg_catalog.pg_stat_all_tables s ON s.relid = c.oid
            WHERE c.relnamespace = 'semel'::regnamespace AND c.relkind = 'r'
            GROUP BY 1
            ORDER BY bytes DESC, 1",
    types: &[],
};

/// Indexes, with those of partitions as one.
pub(super) static INDEXES: Sql = Sql {
    text: "SELECT coalesce(whole.relname, c.relname)::text,
                  max(coalesce(whole_table.relname, t.relname)::text),
                  sum(pg_catalog.pg_relation_size(c.oid))::bigint AS bytes,
                  sum(coalesce(s.idx_scan, 0))::bigint,
                  bool_and(x.indisvalid)
             FROM pg_catalog.pg_class c
             JOIN pg_catalog.pg_index x ON x.indexrelid = c.oid
             JOIN pg_catalog.pg_class t ON t.oid = x.indrelid
             LEFT JOIN pg_catalog.pg_inherits i ON i.inhrelid = c.oid
             LEFT JOIN pg_catalog.pg_class whole ON whole.oid = i.inhparent
             LEFT JOIN pg_catalog.pg_inherits ti ON ti.inhrelid = t.oid
             LEFT JOIN pg_catalog.pg_class whole_table ON whole_table.oid = ti.inhparent
             LEFT JOIN pg_catalog.pg_stat_all_indexes s ON s.indexrelid = c.oid
            WHERE c.relnamespace = 'semel'::regnamespace AND c.relkind = 'i'
            GROUP BY 1
            ORDER BY bytes DESC, 1",
    types: &[],
};

/// How the server fares. Names of partitions end with their day.
pub(super) static CONDITION: Sql = Sql {
    text: concat!(
        "SELECT (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE backend_type = 'client backend'),
                current_setting('max_connections')::bigint,
                (SELECT coalesce(floor(extract(epoch FROM clock_timestamp() - min(xact_start)))::bigint, 0)
                   FROM pg_catalog.pg_stat_activity
                  WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()),
                (SELECT coalesce(floor(extract(epoch FROM clock_timestamp() - min(prepared)))::bigint, 0)
                   FROM pg_catalog.pg_prepared_xacts
                  WHERE database = current_database()),
                (SELECT age(datfrozenxid)::bigint FROM pg_catalog.pg_database WHERE datname = current_database()),
                (SELECT coalesce(max(pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), restart_lsn))::bigint, 0)
                   FROM pg_catalog.pg_replication_slots
                  WHERE NOT active),
                (SELECT count(*)
                   FROM pg_catalog.pg_class
                  WHERE relnamespace = 'semel'::regnamespace
                    AND relname ~ '^job_[0-9]{8}$'
                    AND substr(relname, 5) > to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYYMMDD')),
                (SELECT count(*) FROM (SELECT FROM semel.job_default LIMIT 1000) AS first),
                (SELECT greatest(coalesce((",
        database_now!(),
        " - min(look_at)) / 1000, 0), 0) FROM semel.done),
                (SELECT count(*) FROM (SELECT FROM semel.tally LIMIT 100000) AS first)"
    ),
    types: &[],
};
