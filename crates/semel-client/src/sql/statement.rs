//! The statements, the same for every driver. Times and spans travel as milliseconds, so no driver needs a type for them.

/// Takes queue, payload, key, delay, run-at, priority, group, metadata, options and publisher.
pub(super) const PUBLISH: &str = "\
    SELECT p.id, p.state, floor(extract(epoch FROM p.created_at) * 1000)::bigint, p.deduplicated, p.payload_matches, \
           p.duplicates, floor(extract(epoch FROM p.key_expires_at) * 1000)::bigint \
      FROM semel.publish( \
               $1::text, $2::text, $3::text, $4::bigint * interval '1 millisecond', \
               timestamptz 'epoch' + $5::bigint * interval '1 millisecond', $6::integer, $7::text, \
               $8::text::json, $9::text::json, $10::text \
           ) AS p";

/// Takes job, lease, result and effect.
pub(super) const COMPLETE: &str = "\
    SELECT c.queue, c.repeated, round(extract(epoch FROM c.took) * 1000)::bigint \
      FROM semel.complete($1::text, $2::text, $3::text, $4::text::json) AS c";
