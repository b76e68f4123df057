//! One cluster for a whole run of the tests.

use std::{
    fmt::Display,
    fs::File,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::LazyLock,
    time::{Duration, SystemTime},
};

use crate::{
    Database, Error, Template,
    home::Home,
    server::{self, settings},
    sql, watchdog,
};

/// Tests follow each other within seconds. A pause this long means that the run is over.
const IDLE: Duration = Duration::from_secs(60);

/// The port in the name of the socket; there is no other one, for the cluster listens on its socket alone.
pub(crate) const PORT: u16 = 5432;

/// A PostgreSQL cluster that all tests of a run share, whatever process they are in.
///
/// The first that asks starts it, which takes some two seconds; the others find it by a file in the target directory.
/// It ends by itself a minute after its last user. Nothing on it survives that, so it need not be careful with the
/// disk: `fsync` is off, and all else is as in production.
#[derive(Debug)]
pub struct Shared {
    place: PathBuf,
    home: Home,
    /// Its lock says that this process may be using the cluster, and goes with the process.
    used: File,
}

impl Shared {
    /// The cluster of this run. Started, if nobody has yet.
    pub fn get() -> Result<&'static Self, &'static Error> {
        static SHARED: LazyLock<Result<Shared, Error>> = LazyLock::new(|| Shared::at(&usual_place(), IDLE));
        SHARED.as_ref()
    }

    /// A cluster that everybody shares who names this directory, and that ends after this time without users.
    pub fn at(place: &Path, idle: Duration) -> Result<Self, Error> {
        std::fs::create_dir_all(place).map_err(Error::path("make", place))?;
        // Held until this function returns: one process starts the cluster, the others wait for it.
        let _starting = locked(&place.join("lock"))?;
        let used = opened(&place.join("used"))?;
        used.lock_shared().map_err(Error::path("lock", place.join("used")))?;
        touch(&used)?;
        let home = match running(place)? {
            Some(home) => home,
            None => started(place, idle)?,
        };
        Ok(Self { place: place.to_owned(), home, used })
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
        touch(&self.used)?;
        Database::create(self, template, prepare)
    }

    /// Runs SQL as superuser; rows come back a line each, columns separated by `|`.
    pub fn sql(&self, database: &str, sql: &str) -> Result<String, Error> {
        sql::run(&self.home, PORT, database, &[sql])
    }

    /// The directory that holds the cluster's data, socket and log.
    pub fn directory(&self) -> &Path {
        self.home.path()
    }

    /// Holds others off while a template is being prepared.
    pub(crate) fn lock_templates(&self) -> Result<File, Error> {
        locked(&self.place.join("templates"))
    }

    /// Counts as a use.
    pub(crate) fn touched(&self) -> Result<(), Error> {
        touch(&self.used)
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }
}

/// The cluster that was started here before, if it still answers.
fn running(place: &Path) -> Result<Option<Home>, Error> {
    let Ok(path) = std::fs::read_to_string(place.join("home")) else { return Ok(None) };
    let home = Home::existing(path.into())?;
    Ok(UnixStream::connect(home.socket(PORT)).is_ok().then_some(home))
}

fn started(place: &Path, idle: Duration) -> Result<Home, Error> {
    let home = Home::in_memory()?;
    let note = place.join("home");
    std::fs::write(&note, home.path().as_os_str().as_encoded_bytes()).map_err(Error::path("write", &note))?;
    // First of all, so that nothing is left behind if this process is killed on the way.
    watchdog::while_used(&home, place, idle)?;
    server::initialise(&home, None)?;
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
    drop(server::start(&home, PORT, &settings)?);
    Ok(home)
}

fn opened(path: &Path) -> Result<File, Error> {
    File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(path)
        .map_err(Error::path("open", path))
}

fn locked(path: &Path) -> Result<File, Error> {
    let file = opened(path)?;
    file.lock().map_err(Error::path("lock", path))?;
    Ok(file)
}

fn touch(file: &File) -> Result<(), Error> {
    file.set_modified(SystemTime::now()).map_err(Error::io("touch the file that counts uses"))
}

/// A directory of cargo's target directory, which is the one above this program that cargo has marked. A program that
/// lies elsewhere shares with others of its user.
fn usual_place() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    match program.ancestors().find(|directory| directory.join("CACHEDIR.TAG").is_file()) {
        Some(target) => target.join("semel-cluster"),
        None => std::env::temp_dir().join(format!("semel-cluster-{}", rustix::process::geteuid().as_raw())),
    }
}
