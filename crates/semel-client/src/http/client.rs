//! The client and its settings.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::http::HeaderValue;
use bytes::Bytes;
use http_body_util::Full;
use hyper_util::client::legacy::Client as Pool;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::Error;
use super::address::Address;
use super::connect::Connector;
use super::patience::Tries;

/// All tries of a call. Longer than a server takes to restart, shorter than most callers are waited for themselves.
const DEADLINE: Duration = Duration::from_secs(30);

/// One try. A server that is well answers within milliseconds; one that is overloaded says so well within this time.
const TRY: Duration = Duration::from_secs(10);

/// How long an unused connection is kept: less than the minute after which servers and proxies commonly close theirs.
const IDLE: Duration = Duration::from_secs(45);

/// A client of one server. Clones share their connections.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    deadline: Duration,
    each: Duration,
    hopeful: bool,
}

struct Shared {
    address: Address,
    authorization: Option<HeaderValue>,
    pool: Pool<Connector, Full<Bytes>>,
}

/// Settings of a client.
#[derive(Clone)]
pub struct Builder {
    url: String,
    api_key: Option<String>,
    deadline: Duration,
    each: Duration,
    hopeful: bool,
    authorities: Option<Vec<u8>>,
}

impl Client {
    /// A client of the server at this address, with the usual settings and without an API key.
    pub fn new(url: impl Into<String>) -> Result<Self, Error> {
        Self::builder(url).build()
    }

    /// A client of the server at this address.
    pub fn builder(url: impl Into<String>) -> Builder {
        let (deadline, each) = (DEADLINE, TRY);
        Builder { url: url.into(), api_key: None, deadline, each, hopeful: true, authorities: None }
    }

    /// The same client with another deadline over all tries of a call.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        Self { deadline, ..self.clone() }
    }

    /// The same client for somebody who outlives the restarts of the server: it waits for one that nobody listens at.
    #[cfg(feature = "worker")]
    pub(crate) fn patient(&self) -> Self {
        Self { hopeful: true, ..self.clone() }
    }

    pub(super) fn address(&self) -> &Address {
        &self.shared.address
    }

    pub(super) fn authorization(&self) -> Option<&HeaderValue> {
        self.shared.authorization.as_ref()
    }

    pub(super) fn pool(&self) -> &Pool<Connector, Full<Bytes>> {
        &self.shared.pool
    }

    /// The tries of a call whose answer the server holds for so long.
    pub(super) fn tries(&self, hold: Duration) -> Tries {
        Tries::within(self.deadline.saturating_add(hold), self.each, self.hopeful)
    }

    /// The time for one try.
    pub(super) fn each(&self) -> Duration {
        self.each
    }
}

impl Builder {
    /// The API key.
    #[must_use]
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.api_key = Some(key.into());
        self
    }

    /// The time for all tries of a call (30 s).
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// The time for one try (10 s), besides what the server was asked to wait.
    #[must_use]
    pub fn try_timeout(mut self, each: Duration) -> Self {
        self.each = each;
        self
    }

    /// A call ends at once when nobody listens at the address, instead of waiting for a server that may be restarting. For
    /// tools with a person in front of them. Once a call has reached the server it is patient.
    #[must_use]
    pub fn unless_nobody_listens(mut self) -> Self {
        self.hopeful = false;
        self
    }

    /// Certificates of authorities to trust besides the system's, as PEM.
    #[must_use]
    pub fn authorities(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.authorities = Some(pem.into());
        self
    }

    /// The client. It connects when it is first used.
    pub fn build(self) -> Result<Client, Error> {
        let address = Address::parse(&self.url)?;
        let authorization = self.api_key.as_deref().map(bearer).transpose()?;
        let connector = if address.is_secure() {
            let extra = self.authorities.as_deref().map(certificates).transpose()?;
            Connector::secure(&extra.unwrap_or_default())?
        } else {
            Connector::plain()
        };
        let pool = Pool::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_timer(TokioTimer::new())
            .build(connector);
        let shared = Arc::new(Shared { address, authorization, pool });
        Ok(Client { shared, deadline: self.deadline, each: self.each, hopeful: self.hopeful })
    }
}

fn bearer(key: &str) -> Result<HeaderValue, Error> {
    let value = HeaderValue::try_from(format!("Bearer {key}"));
    let mut value = value.map_err(|_| {
        Error::Setup("the API key holds characters that no key has: is there a line break at its end?".into())
    })?;
    value.set_sensitive(true);
    Ok(value)
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|error| Error::Setup(format!("the authorities cannot be read as PEM: {error}")))?;
    // Whoever names authorities means to trust somebody; a wrong file must not go unnoticed.
    if all.is_empty() {
        return Err(Error::Setup("there is no certificate in the PEM of the authorities".into()));
    }
    Ok(all)
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("address", &self.shared.address).finish_non_exhaustive()
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("url", &self.url).finish_non_exhaustive()
    }
}
