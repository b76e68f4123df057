//! What the parts of the server get of a configuration.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::any;
use semel_store::group_commit;

use super::Config;
use crate::api::code::Code;
use crate::api::problem::Problem;
use crate::delivery::call::{Caller, CallerOptions};
use crate::delivery::dial::TcpDial;
use crate::delivery::guard::Guard;
use crate::delivery::resolve::SystemResolver;
use crate::delivery::tls;
use crate::net::{Http2Limits, Limits, Tls, TlsError};
use crate::peers::Identity;
use crate::service::{AuthMode, Options};

/// How many commits may be on their way to a database at once. Each waits for a network and a disk that others use, too;
/// an embedded store has one disk, and writes one after the other.
const COMMITS_SHARED: usize = 4;

/// How long such a commit is alone on its way: a little longer than most take, so that the next one is large instead of early.
const COMMITS_APART: Duration = Duration::from_millis(3);

/// How long after such a commit the next waits for callers to come back: two small commits cost more than one.
const COMMITS_LINGER: Duration = Duration::from_millis(2);

impl Config {
    /// The limits on connections.
    pub fn net_limits(&self) -> Limits {
        let (limits, default) = (&self.limits, Limits::default());
        Limits {
            header_timeout: limits.header_timeout,
            body_timeout: limits.body_timeout,
            idle_timeout: limits.idle_timeout,
            write_timeout: limits.write_timeout,
            max_connections: limits.connections.unwrap_or(default.max_connections),
            max_header_bytes: limits.header,
            http2: Http2Limits { max_streams: limits.http2_streams, ..default.http2 },
            grace: self.shutdown.grace,
        }
    }

    /// The certificate, if there is to be one.
    pub fn load_tls(&self) -> Result<Option<Tls>, TlsError> {
        match (&self.tls.cert, &self.tls.key) {
            (Some(cert), Some(key)) => Tls::from_pem_files(cert, key).map(Some),
            _ => Ok(None),
        }
    }

    /// How the service is to behave.
    pub fn service_options(&self, auth: AuthMode) -> Options {
        let limits = &self.limits;
        Options {
            auth,
            body_limit: limits.body,
            batch_body_limit: limits.batch_body,
            commit: self.commits(),
            in_flight_per_queue: self.delivery.in_flight_per_queue,
            archive: self.archive.dir.clone(),
            identity: self.identity(),
            ..Options::default()
        }
    }

    fn commits(&self) -> group_commit::Options {
        let own = group_commit::Options { capacity: self.limits.waiting_commands, ..Default::default() };
        match self.store.url {
            None => own,
            Some(_) => group_commit::Options {
                in_flight: COMMITS_SHARED,
                stagger: COMMITS_APART,
                linger: COMMITS_LINGER,
                ..own
            },
        }
    }

    /// What this node is called.
    pub fn identity(&self) -> Identity {
        let scheme = if self.tls.cert.is_some() { "https" } else { "http" };
        let listens = || format!("{scheme}://{}", self.listen);
        let machine = || rustix::system::uname().nodename().to_string_lossy().into_owned();
        Identity {
            name: self.node.name.clone().unwrap_or_else(machine),
            address: self.node.address.clone().unwrap_or_else(listens),
        }
    }

    /// The guard of webhooks.
    pub fn guard(&self) -> Guard {
        Guard::new(self.delivery.allow.clone(), &self.delivery.allow_hosts)
    }

    /// The caller of webhooks.
    pub fn caller(&self, guard: Guard) -> Result<Caller, tls::TlsError> {
        Caller::new(CallerOptions {
            guard,
            resolver: Arc::new(SystemResolver),
            dial: Arc::new(TcpDial),
            extra_ca: self.delivery.extra_ca.clone(),
            idle_per_host: usize::try_from(self.delivery.in_flight_per_queue).unwrap_or(usize::MAX),
        })
    }

    /// The API, without what is turned off.
    pub fn expose(&self, api: Router) -> Router {
        if self.metrics {
            return api;
        }
        let off = || async { Problem::new(Code::NotFound, "metrics are turned off on this server") };
        Router::new().route("/metrics", any(off)).fallback_service(api)
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http::{Request, StatusCode};
    use tower_service::Service as _;

    use super::super::NodeConfig;
    use super::*;
    use crate::credentials::Secret;

    #[tokio::test]
    async fn metrics_can_be_turned_off_and_everything_else_stays() {
        let api = Router::new().route("/metrics", any(|| async {})).route("/other", any(|| async {}));
        for (metrics, path, status) in [
            (true, "/metrics", StatusCode::OK),
            (false, "/metrics", StatusCode::NOT_FOUND),
            (false, "/other", StatusCode::OK),
        ] {
            let mut exposed = Config { metrics, ..Config::default() }.expose(api.clone());
            let answer = exposed.call(Request::get(path).body(Body::empty()).unwrap()).await.unwrap();
            assert_eq!(answer.status(), status, "{metrics} {path}");
        }
    }

    #[test]
    fn every_limit_arrives_where_it_is_kept() {
        let mut config = Config::default();
        assert_eq!(config.net_limits(), Limits::default());
        config.limits.connections = Some(7);
        config.limits.http2_streams = 8;
        config.limits.waiting_commands = 9;
        assert_eq!((config.net_limits().max_connections, config.net_limits().http2.max_streams), (7, 8));
        let options = config.service_options(AuthMode::Open);
        assert_eq!((options.commit.capacity, options.auth, options.dev), (9, AuthMode::Open, false));
        assert_eq!((options.commit.in_flight, options.commit.linger), (1, Duration::ZERO));
        config.store.url = Some(Secret::new("postgres://h/d"));
        let shared = config.service_options(AuthMode::Open).commit;
        assert_eq!((shared.capacity, shared.in_flight, shared.linger), (9, COMMITS_SHARED, COMMITS_LINGER));
    }

    #[test]
    fn a_node_is_called_as_its_machine_unless_told_otherwise() {
        let mut config = Config::default();
        let identity = config.identity();
        assert!(!identity.name.is_empty());
        assert_eq!(identity.address, "http://127.0.0.1:7477");
        config.tls.cert = Some("c.pem".into());
        assert_eq!(config.identity().address, "https://127.0.0.1:7477");
        config.node = NodeConfig { name: Some("one".into()), address: Some("https://one".into()) };
        let told = Identity { name: "one".into(), address: "https://one".into() };
        assert_eq!(config.identity(), told);
    }
}
