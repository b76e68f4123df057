//! One cluster for a whole run of the tests.

use std::{
    fmt::Display,
    fs::File,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::LazyLock,
    time::Duration,
};

use crate::{
    Database, Error, Template, account,
    commons::{Commons, IDLE, Service, usual_place},
    home::Home,
    server::{self, settings},
    sql,
};

/// The port in the name of the socket; there is no other one, for the cluster listens on its socket alone.
pub(crate) const PORT: u16 = 5432;

/// A PostgreSQL cluster that all tests of a run share, whatever process they are in.
///
/// The first that asks starts it, which takes some two seconds; the others find it by a file in the target directory.
/// It ends by itself a minute after its last user. Nothing on it survives that, so it need not be careful with the
/// disk: `fsync` is off, and all else is as in production.
#[derive(Debug)]
pub struct Shared(Commons);

impl Shared {
    /// The cluster of this run. Started, if nobody has yet.
    pub fn get() -> Result<&'static Self, &'static Error> {
        static SHARED: LazyLock<Result<Shared, Error>> =
            LazyLock::new(|| Shared::at(&usual_place("semel-cluster"), IDLE));
        SHARED.as_ref()
    }

    /// A cluster that everybody shares who names this directory, and that ends after this time without users.
    pub fn at(place: &Path, idle: Duration) -> Result<Self, Error> {
        Commons::at::<Postgres>(place, idle).map(Self)
    }

    /// A new database, as the template is. It is dropped with the guard.
    ///
    /// The template is prepared once per run and content: `prepare` gets the URL of an empty database and fills it. It
    /// runs on a thread of its own, so it may start a runtime and wait on it, also when the caller is asynchronous.
    pub fn database<E: Display + Send>(
        &self,
        template: &Template<'_>,
        prepare: impl FnOnce(&str) -> Result<(), E> + Send,
    ) -> Result<Database<'_>, Error> {
        self.touched()?;
        Database::create(self, template, prepare)
    }

    /// Runs SQL as superuser; rows come back a line each, columns separated by `|`.
    pub fn sql(&self, database: &str, sql: &str) -> Result<String, Error> {
        sql::run(self.home(), PORT, database, &[sql])
    }

    /// The directory that holds the cluster's data, socket and log.
    pub fn directory(&self) -> &Path {
        self.home().path()
    }

    /// Holds others off while a template is being prepared.
    pub(crate) fn lock_templates(&self) -> Result<File, Error> {
        self.0.lock("templates")
    }

    /// Counts as a use.
    pub(crate) fn touched(&self) -> Result<(), Error> {
        self.0.touch()
    }

    pub(crate) fn home(&self) -> &Home {
        self.0.home()
    }
}

struct Postgres;

impl Service for Postgres {
    const ACCOUNT: &'static str = account::POSTGRES;

    fn answers(home: &Home) -> bool {
        UnixStream::connect(socket(home)).is_ok()
    }

    fn start(home: &Home) -> Result<(), Error> {
        server::initialise(home, None)?;
        let settings = settings(&[
            ("listen_addresses", ""),
            ("max_connections", "200"),
            ("fsync", "off"),
            ("full_page_writes", "off"),
            // Nobody replicates it, and databases are made and dropped all the time.
            ("wal_level", "minimal"),
            ("max_wal_senders", "0"),
            ("max_wal_size", "256MB"),
            // Files in the data directory go with it; segments of the system stay behind a killed server.
            ("dynamic_shared_memory_type", "mmap"),
        ]);
        // It outlives this process, as the watchdog does.
        server::start(home, PORT, &settings).map(drop)
    }
}

fn socket(home: &Home) -> PathBuf {
    home.path().join(format!(".s.PGSQL.{PORT}"))
}
