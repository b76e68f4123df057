//! Connections: how they are made, and the bounded pool they wait in.

use std::time::Duration;

use deadpool::Runtime;
use deadpool::managed::{self, Metrics, Object, PoolError, QueueMode, RecycleError, RecycleResult, Timeouts};
use futures_util::future::join_all;
use semel_store::StoreError;
use semel_store::shared::Exposure;
use tokio::time::{Instant, timeout};
use tokio_postgres::Socket;
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::address::Address;
use crate::fault::Fault;
use crate::hosts::Hosts;
use crate::options::Options;
use crate::patience::Patience;
use crate::reign;
use crate::session::{Link, Session};
use crate::tls;

/// How long a server may take to be reached. One that is there is in milliseconds; one behind a dead network never is.
const REACH_TIMEOUT: Duration = Duration::from_secs(2);
/// How long making a connection may take, with all that is said before it can be used.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long data may stay unconfirmed before the system calls the connection broken: a partition is noticed in seconds.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(15);
/// When the system asks whether an idle connection is still there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);

/// Each statement sees what was committed before it: what is read after a lock is as it is under that lock.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// The connections of a store.
#[derive(Debug, Clone)]
pub(crate) struct Pool(managed::Pool<Maker>);

impl Pool {
    /// A pool for the database at `url`. It makes its connections when they are needed.
    pub(crate) fn new(url: &str, options: &Options) -> Result<Self, StoreError> {
        let maker = Maker::new(url, options)?;
        let timeouts = Timeouts {
            wait: Some(options.patience),
            create: Some(CONNECT_TIMEOUT),
            recycle: Some(CONNECT_TIMEOUT),
        };
        let built = managed::Pool::builder(maker)
            .max_size(options.connections.max(1))
            .timeouts(timeouts)
            // The connection that was used last: its backend has everything at hand that a commit needs.
            .queue_mode(QueueMode::Lifo)
            .runtime(Runtime::Tokio1)
            .build();
        built.map(Self).map_err(|e| StoreError::Open(format!("cannot make a pool of connections: {e}")))
    }

    /// A connection, as soon as there is a free one.
    pub(crate) async fn session(&self) -> Result<Session, Fault> {
        self.lent(self.0.get().await, None).await
    }

    /// The same for a call whose patience ends: neither the wait for the connection nor any answer on it takes longer.
    pub(crate) async fn session_within(&self, patience: &Patience) -> Result<Session, Fault> {
        let until = patience.until();
        let left = until.saturating_duration_since(Instant::now());
        let timeouts = self.0.timeouts();
        let at_most = |span: Option<Duration>| span.map(|span| span.min(left));
        let timeouts = Timeouts {
            wait: at_most(timeouts.wait),
            create: at_most(timeouts.create),
            recycle: at_most(timeouts.recycle),
        };
        self.lent(self.0.timeout_get(&timeouts).await, Some(until)).await
    }

    async fn lent(
        &self,
        got: Result<Object<Maker>, PoolError<Fault>>,
        until: Option<Instant>,
    ) -> Result<Session, Fault> {
        let mut link = got.map_err(|e| match e {
            // Whatever the server has against a new connection, nothing was sent, and it may think better of it.
            PoolError::Backend(fault) => Fault::Unreachable(fault.to_string()),
            PoolError::Closed => Fault::Closed,
            PoolError::Timeout(what) => Fault::Unreachable(format!("no connection in time ({what:?})")),
            other => Fault::Unreachable(other.to_string()),
        })?;
        link.lend(until);
        let session = Session::new(link);
        session.prepare_wanted().await?;
        Ok(session)
    }

    /// Looks at every server of an address that names several.
    pub(crate) async fn meet_all(&self) {
        let maker = self.0.manager();
        if maker.hosts.count() > 1 {
            maker.meet_all().await;
        }
    }

    /// Asks where a connection leads by now: a pooler keeps it while the server behind it changes.
    pub(crate) async fn greet_again(&self, session: &Session) -> Result<(), Fault> {
        reign::greet(session, &self.0.manager().reigns).await.map(drop)
    }

    /// What the primaries so far may have lost, as far as its connections were told.
    pub(crate) fn exposure(&self) -> Option<Exposure> {
        self.0.manager().reigns.exposure()
    }

    /// Ends all connections that are idle, and the others when they come back.
    pub(crate) fn close(&self) {
        self.0.close();
    }

    /// Whether it has been closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

/// The end of a connection that is driven.
pub(crate) type Wire =
    tokio_postgres::Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

/// What makes connections and looks after them.
#[derive(Debug)]
pub(crate) struct Maker {
    hosts: Hosts,
    /// What it has met of primaries.
    reigns: reign::Memory,
    tls: Tls,
    prepare: bool,
    /// Sent with every `BEGIN` where a connection cannot keep it.
    begin: String,
    answer_timeout: Duration,
}

/// The certificates, which say nothing when they are printed.
struct Tls(MakeRustlsConnect);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Maker {
    pub(crate) fn new(url: &str, options: &Options) -> Result<Self, StoreError> {
        let Address { mut config, trust } = Address::parse(url)?;
        let tls = tls::connector(&trust).map_err(StoreError::Open)?;
        config
            .application_name(format!("semel {}", options.node_name))
            .target_session_attrs(TargetSessionAttrs::ReadWrite)
            .connect_timeout(REACH_TIMEOUT)
            .tcp_user_timeout(TCP_USER_TIMEOUT)
            .keepalives_idle(KEEPALIVE_IDLE);
        let settings = Settings::of(options);
        if options.prepare {
            let given = config.get_options().unwrap_or_default().to_owned();
            config.options(format!("{given}{}", settings.as_startup()));
        }
        let own = if options.prepare { String::new() } else { settings.as_set_local() };
        let begin = format!("{BEGIN}{own}");
        // The database gives up first, so that its answer, and not a guess, tells what happened.
        let answer_timeout = options.statement_timeout + CONNECT_TIMEOUT;
        let (hosts, reigns) = (Hosts::of(&config), reign::Memory::default());
        Ok(Self { hosts, reigns, tls: Tls(tls), prepare: options.prepare, begin, answer_timeout })
    }

    /// The same with another's memory of primaries.
    pub(crate) fn remembering(mut self, pool: &Pool) -> Self {
        self.reigns = pool.0.manager().reigns.clone();
        self
    }

    /// One connection to the first server that takes writes.
    pub(crate) async fn connect(&self) -> Result<Link, Fault> {
        self.first_good(|config| self.connect_at(config, drive)).await.map(|(link, ())| link)
    }

    /// The same to a server that is known to be the primary, with what the end to be driven is given to.
    pub(crate) async fn connect_to_primary<D>(&self, drive: impl Fn(Wire) -> D) -> Result<(Link, D), Fault> {
        self.first_good(|config| self.connect_and_greet(config, &drive)).await
    }

    /// Looks at every server there is: of two that take writes, the later primary is known from then on.
    async fn meet_all(&self) {
        let meet = |(_, config)| timeout(CONNECT_TIMEOUT, self.connect_and_greet(config, drive));
        join_all(self.hosts.in_turn().map(meet)).await;
    }

    /// What the first server gives with which it can be done, or why it could not be done with the last.
    async fn first_good<'a, T, F>(
        &'a self,
        attempt: impl Fn(&'a tokio_postgres::Config) -> F,
    ) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        let mut fault = Fault::Unreachable("the address names no server".into());
        for (at, config) in self.hosts.in_turn() {
            self.hosts.trying(at);
            let attempted = timeout(CONNECT_TIMEOUT, attempt(config)).await;
            fault = match attempted {
                Ok(Ok(good)) => {
                    self.hosts.found(at);
                    return Ok(good);
                }
                Ok(Err(refused)) => refused,
                Err(_) => Fault::Unreachable("the server does not answer".into()),
            };
            tracing::debug!(server = at, %fault, "a server was not the one to use");
        }
        Err(fault)
    }

    async fn connect_and_greet<D>(
        &self,
        config: &tokio_postgres::Config,
        drive: impl Fn(Wire) -> D,
    ) -> Result<(Link, D), Fault> {
        let (mut link, driver) = self.connect_at(config, drive).await?;
        link.reign = reign::greet(&link, &self.reigns).await?;
        Ok((link, driver))
    }

    async fn connect_at<D>(
        &self,
        config: &tokio_postgres::Config,
        drive: impl Fn(Wire) -> D,
    ) -> Result<(Link, D), Fault> {
        let made = config.connect(self.tls.0.clone()).await;
        let (client, wire) = made.map_err(|e| match Fault::from(e) {
            Fault::Lost(what) => Fault::Unreachable(what),
            other => other,
        })?;
        let driver = drive(wire);
        Ok((Link::new(client, self.prepare, self.begin.clone(), self.answer_timeout), driver))
    }
}

/// Drives a connection. That lives as long as the runtime that made it, and ends with it.
fn drive(wire: Wire) {
    tokio::spawn(async move {
        if let Err(error) = wire.await {
            tracing::debug!(%error, "a connection to the database ended");
        }
    });
}

impl managed::Manager for Maker {
    type Type = Link;
    type Error = Fault;

    async fn create(&self) -> Result<Link, Fault> {
        // Most calls find a connection: in a box, or each of them would make room for making one, and move it.
        Box::pin(self.connect_to_primary(drive)).await.map(|(link, ())| link)
    }

    async fn recycle(&self, link: &mut Link, _: &Metrics) -> RecycleResult<Fault> {
        if link.reign.is_some_and(|reign| self.reigns.is_over(reign)) {
            return Err(RecycleError::message("it leads to an old primary"));
        }
        if link.is_usable() { Ok(()) } else { Err(RecycleError::message("the connection is closed")) }
    }
}

/// How the database is to treat what it is sent.
struct Settings(Vec<(&'static str, String)>);

impl Settings {
    fn of(options: &Options) -> Self {
        let statement = options.statement_timeout.as_millis().to_string();
        Self(vec![
            ("statement_timeout", statement.clone()),
            ("lock_timeout", options.lock_timeout.as_millis().to_string()),
            // A node that stops in the middle of a transaction must not keep its locks.
            ("idle_in_transaction_session_timeout", statement),
            // Compiling a statement takes longer than any of ours runs.
            ("jit", "off".to_owned()),
            // Every row is looked up by a key. A plan is made once and kept, perhaps while the tables are still empty and
            // reading all of them looks cheap: a thousand publishes later it would not be.
            ("plan_cache_mode", "force_generic_plan".to_owned()),
            ("enable_seqscan", "off".to_owned()),
            ("enable_hashjoin", "off".to_owned()),
            ("enable_mergejoin", "off".to_owned()),
            ("max_parallel_workers_per_gather", "0".to_owned()),
        ])
    }

    fn as_startup(&self) -> String {
        self.0.iter().map(|(name, value)| format!(" -c {name}={value}")).collect()
    }

    fn as_set_local(&self) -> String {
        self.0.iter().map(|(name, value)| format!("; SET LOCAL {name} = {value}")).collect()
    }
}
