//! Every way a request can fail, as a stable code. Each has a page in `docs/errors/`, which the server shows too.

use http::StatusCode;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident, $name:literal, $status:literal, $retryable:literal, $title:literal;)*) => {
        /// A stable code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code {
            $($(#[$doc])* $variant,)*
        }

        impl Code {
            /// Every code there is.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name that machines go by.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The status it is answered with.
            pub fn status(self) -> StatusCode {
                let number: u16 = match self { $(Self::$variant => $status,)* };
                StatusCode::from_u16(number).expect("the table has status codes only")
            }

            /// Whether the same request may work later, without anybody mending anything.
            pub fn retryable(self) -> bool {
                match self { $(Self::$variant => $retryable,)* }
            }

            /// What it means, in a few words.
            pub fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)* }
            }

            /// The page that explains it.
            pub fn page(self) -> &'static str {
                match self { $(Self::$variant => include_str!(concat!("../../../../docs/errors/", $name, ".md")),)* }
            }
        }
    };
}

codes! {
    /// A field does not validate.
    Invalid, "invalid", 400, false, "The request is not valid";
    /// The body is not JSON.
    InvalidJson, "invalid_json", 400, false, "The body is not valid JSON";
    /// The queue wants a key.
    KeyRequired, "key_required", 400, false, "This queue requires an idempotency key";
    /// No key, or not one we know.
    Unauthorized, "unauthorized", 401, false, "A valid API key is needed";
    /// The key may not do that.
    Forbidden, "forbidden", 403, false, "The API key may not do this";
    /// A browser was tricked into asking.
    CrossSite, "cross_site", 403, false, "Requests from other web sites are refused";
    /// No such path.
    NotFound, "not_found", 404, false, "There is nothing at this path";
    /// No such queue.
    QueueNotFound, "queue_not_found", 404, false, "There is no such queue";
    /// No such job.
    JobNotFound, "job_not_found", 404, false, "There is no such job";
    /// No job holds the key.
    KeyNotFound, "key_not_found", 404, false, "No job holds this key";
    /// No such schedule, API key or replay.
    RecordNotFound, "record_not_found", 404, false, "There is no such record";
    /// Not that method.
    MethodNotAllowed, "method_not_allowed", 405, false, "This path does not take this method";
    /// The body came too slowly.
    BodyTimeout, "body_timeout", 408, true, "The body did not arrive in time";
    /// The token is not the current one.
    StaleLease, "stale_lease", 409, false, "The lease is not yours any more";
    /// The job is not with a worker.
    NotLeased, "not_leased", 409, false, "The job is not with a worker";
    /// The job is in the wrong state.
    WrongState, "wrong_state", 409, false, "The job is in a state in which this cannot be done";
    /// The queue has unfinished jobs.
    QueueNotEmpty, "queue_not_empty", 409, false, "The queue has unfinished jobs";
    /// Somebody else has done it.
    Outrun, "outrun", 409, false, "Another node has done this already";
    /// The payload is no longer kept.
    PayloadGone, "payload_gone", 410, false, "The payload is no longer kept";
    /// The payload is larger than the queue takes.
    PayloadTooLarge, "payload_too_large", 413, false, "The payload is too large for this queue";
    /// The body is larger than the server takes.
    BodyTooLarge, "body_too_large", 413, false, "The body is too large";
    /// Not JSON, or compressed.
    UnsupportedMediaType, "unsupported_media_type", 415, false, "The body is of a kind that is not read";
    /// The key stands for another payload.
    KeyCollision, "key_collision", 422, false, "The key stands for another payload";
    /// The key does not look as it should.
    KeyPattern, "key_pattern", 422, false, "The key does not look as the queue wants it";
    /// Something stored cannot be read.
    Damaged, "damaged", 500, false, "Something stored is damaged";
    /// A bug.
    Internal, "internal", 500, false, "The server made a mistake";
    /// Too much is waiting.
    Overloaded, "overloaded", 503, true, "Too much is waiting to be stored";
    /// The store is busy.
    StoreBusy, "store_busy", 503, true, "The store is busy";
    /// It may or may not have happened.
    UnknownOutcome, "unknown_outcome", 503, true, "It is not known whether this happened";
    /// The store takes no more writes.
    StoreFailed, "store_failed", 503, false, "The store has failed";
    /// The server ends.
    ShuttingDown, "shutting_down", 503, true, "The server is shutting down";
    /// No room for new jobs.
    StorageFull, "storage_full", 507, true, "There is no room for new jobs";
}

impl Code {
    /// The code of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_page_that_is_about_it() {
        for code in Code::ALL {
            let page = code.page();
            assert!(page.starts_with(&format!("# `{}`", code.name())), "{}", code.name());
            assert!(page.contains(code.status().as_str()), "{} names its status", code.name());
            assert!(page.contains("## What to do"), "{} says what to do", code.name());
            assert_eq!(Code::named(code.name()), Some(*code));
        }
    }
}
