//! A database of one test's own, copied from a template.

use std::{
    fmt::Display,
    hash::{DefaultHasher, Hash, Hasher},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use crate::{Error, Shared, shared::PORT, sql, url};

/// What a database starts with: a name, and everything that decides its content. If the content differs from that of
/// another template, so does the template.
#[derive(Debug, Clone, Copy, Hash)]
pub struct Template<'a> {
    /// A word for messages and names: lower-case letters, digits, underscores.
    pub name: &'a str,
    /// The migrations' text, for example. It is only hashed.
    pub content: &'a str,
}

impl Template<'_> {
    /// A database with nothing in it.
    pub const EMPTY: Template<'static> = Template { name: "empty", content: "" };

    fn database(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.content.hash(&mut hasher);
        format!("template_{}_{:016x}", self.name, hasher.finish())
    }
}

/// A database that is dropped with this guard, with whatever connections are left. If the process is killed it goes
/// with the cluster.
#[derive(Debug)]
pub struct Database<'a> {
    shared: &'a Shared,
    name: String,
    url: String,
}

impl<'a> Database<'a> {
    pub(crate) fn create<E: Display + Send>(
        shared: &'a Shared,
        template: &Template<'_>,
        prepare: impl FnOnce(&str) -> Result<(), E> + Send,
    ) -> Result<Self, Error> {
        let name = unused_name();
        if !copied(shared, &template.database(), &name)? {
            prepared(shared, template, prepare)?;
            copied(shared, &template.database(), &name)?;
        }
        let url = url::by_socket(shared.directory(), PORT, &name);
        Ok(Self { shared, name, url })
    }

    /// Where to connect to, as superuser, through the cluster's socket.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The database's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs SQL on it; rows come back a line each, columns separated by `|`.
    pub fn sql(&self, sql: &str) -> Result<String, Error> {
        self.shared.sql(&self.name, sql)
    }
}

impl Drop for Database<'_> {
    fn drop(&mut self) {
        let drop = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        let dropped = self.shared.sql("postgres", &drop).and_then(|_| self.shared.touched());
        if let Err(error) = dropped {
            eprintln!("semel-cluster: database {} stays until the cluster goes: {error}", self.name);
        }
    }
}

/// Copies a template; `false` if there is none of that name.
fn copied(shared: &Shared, template: &str, name: &str) -> Result<bool, Error> {
    // The newer way writes the copy into the log, page by page. For a few megabytes with fsync off, files are faster.
    let version = std::fs::read_to_string(shared.home().data().join("PG_VERSION")).unwrap_or_default();
    let strategy =
        if version.trim().parse::<u32>().is_ok_and(|v| v >= 15) { "STRATEGY file_copy" } else { "" };
    let create = format!("CREATE DATABASE {name} TEMPLATE {template} {strategy}");
    match shared.sql("postgres", &create) {
        Ok(_) => Ok(true),
        Err(Error::Failed { output, .. }) if output.contains("3D000") => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes the template, unless another process did so while this one waited for the lock. It gets its name last, so a
/// preparation that was interrupted begins anew.
fn prepared<E: Display + Send>(
    shared: &Shared,
    template: &Template<'_>,
    prepare: impl FnOnce(&str) -> Result<(), E> + Send,
) -> Result<(), Error> {
    let _alone = shared.lock_templates()?;
    let (name, draft) = (template.database(), format!("draft_{}", template.name));
    if shared.sql("postgres", &format!("SELECT 1 FROM pg_database WHERE datname = '{name}'"))? == "1" {
        return Ok(());
    }
    let drop = format!("DROP DATABASE IF EXISTS {draft} WITH (FORCE)");
    let create = format!("CREATE DATABASE {draft}");
    sql::run(shared.home(), PORT, "postgres", &[&drop, &create])?;
    filled(&url::by_socket(shared.directory(), PORT, &draft), template, prepare)?;
    // A database with connections can neither be renamed nor copied.
    let clear = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{draft}'");
    let rename = format!("ALTER DATABASE {draft} RENAME TO {name}");
    sql::run(shared.home(), PORT, "postgres", &[&clear, &rename]).map(|_| ())
}

fn filled<E: Display + Send>(
    url: &str,
    template: &Template<'_>,
    prepare: impl FnOnce(&str) -> Result<(), E> + Send,
) -> Result<(), Error> {
    let failed = |reason: String| Error::Template { name: template.name.to_owned(), reason };
    thread::scope(|scope| match scope.spawn(|| prepare(url)).join() {
        Ok(answer) => answer.map_err(|error| failed(error.to_string())),
        Err(_) => Err(failed("it panicked".to_owned())),
    })
}

/// A name that no test has used: not another thread's, not another process's, and not that of a killed process whose
/// number came back.
pub(crate) fn unused_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("test_{}_{now}_{count}", std::process::id())
}
