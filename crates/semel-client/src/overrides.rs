//! What a job may have instead of its queue's: the same list for every way to publish.

/// Gives a publish, which keeps its options by their names in the HTTP API, a method for each.
macro_rules! overrides {
    ($publish:ty) => {
        impl $publish {
            /// Attempts it may use, instead of the queue's.
            #[must_use]
            pub fn max_attempts(self, attempts: u32) -> Self {
                self.option("maxAttempts", serde_json::json!(attempts))
            }

            /// The waits between them, instead of the queue's.
            #[must_use]
            pub fn retry(self, retry: $crate::Retry) -> Self {
                self.option("retry", serde_json::json!(retry))
            }

            /// How long one delivery may take, instead of the queue's time-out.
            #[must_use]
            pub fn timeout(self, timeout: std::time::Duration) -> Self {
                self.option("timeout", serde_json::json!(timeout.as_secs_f64()))
            }

            /// How long its key holds after its end, instead of the queue's window.
            #[must_use]
            pub fn window(self, window: std::time::Duration) -> Self {
                self.option("window", serde_json::json!(window.as_secs_f64()))
            }
        }
    };
}

pub(crate) use overrides;
