//! What all tests of a run share, whatever process they are in: one server, found by a file in the target directory.

use std::{
    fs::File,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use crate::{Error, home::Home, watchdog};

/// Tests follow each other within seconds. A pause this long means that the run is over.
pub(crate) const IDLE: Duration = Duration::from_secs(60);

/// A kind of server that can be shared.
pub(crate) trait Service {
    /// Whom it runs as.
    const ACCOUNT: &'static str;

    /// Whether the server of this home takes connections.
    fn answers(home: &Home) -> bool;

    /// Makes and starts a server that outlives this process.
    fn start(home: &Home) -> Result<(), Error>;
}

/// A server that everybody shares who names the same directory. The first starts it; it ends a while after the last.
#[derive(Debug)]
pub(crate) struct Commons {
    place: PathBuf,
    home: Home,
    /// Its lock says that this process may be using the server, and goes with the process.
    used: File,
}

impl Commons {
    /// The server of this place. Started, if nobody has yet; it ends after this time without users.
    pub(crate) fn at<S: Service>(place: &Path, idle: Duration) -> Result<Self, Error> {
        std::fs::create_dir_all(place).map_err(Error::path("make", place))?;
        // Held until this function returns: one process starts the server, the others wait for it.
        let _starting = locked(&place.join("lock"))?;
        let used = opened(&place.join("used"))?;
        used.lock_shared().map_err(Error::path("lock", place.join("used")))?;
        touch(&used)?;
        let home = match running::<S>(place)? {
            Some(home) => home,
            None => started::<S>(place, idle)?,
        };
        Ok(Self { place: place.to_owned(), home, used })
    }

    /// Counts as a use.
    pub(crate) fn touch(&self) -> Result<(), Error> {
        touch(&self.used)
    }

    /// Holds others off who ask for the same lock of this place.
    pub(crate) fn lock(&self, name: &str) -> Result<File, Error> {
        locked(&self.place.join(name))
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }
}

/// The server that was started here before, if it still answers.
fn running<S: Service>(place: &Path) -> Result<Option<Home>, Error> {
    let Ok(path) = std::fs::read_to_string(place.join("home")) else { return Ok(None) };
    let home = Home::existing(path.into(), S::ACCOUNT)?;
    Ok(S::answers(&home).then_some(home))
}

fn started<S: Service>(place: &Path, idle: Duration) -> Result<Home, Error> {
    let home = Home::in_memory(S::ACCOUNT)?;
    let note = place.join("home");
    std::fs::write(&note, home.path().as_os_str().as_encoded_bytes()).map_err(Error::path("write", &note))?;
    // First of all, so that nothing is left behind if this process is killed on the way.
    watchdog::while_used(&home, place, idle)?;
    S::start(&home)?;
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
pub(crate) fn usual_place(name: &str) -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    match program.ancestors().find(|directory| directory.join("CACHEDIR.TAG").is_file()) {
        Some(target) => target.join(name),
        None => std::env::temp_dir().join(format!("{name}-{}", rustix::process::geteuid().as_raw())),
    }
}
