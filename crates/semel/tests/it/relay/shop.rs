//! A server, a database with an outbox, and relays between them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use semel_cluster::{Cluster, Database, MariaDatabase, Shared, SharedMaria, Template};
use semel_outbox::schema;
use serde_json::Value;
use tempfile::TempDir;

use crate::client::{ANYWHERE, serve};
use crate::run::{self, Ended};
use crate::server::{Server, semel};

const DEADLINE: Duration = Duration::from_secs(60);

/// How many groups rows are spread over. Every row with the number 0 of them has no group.
const GROUPS: usize = 4;

/// An application's database.
pub(crate) enum Base {
    /// Of all tests.
    Postgres(Database<'static>),
    /// Of this one, reachable by TCP.
    Cluster(Cluster),
    Maria(MariaDatabase<'static>),
    Sqlite(PathBuf),
}

impl Base {
    pub(crate) fn postgres() -> Self {
        let template = Template { name: "relay", content: "" };
        let shared = Shared::get().expect("a PostgreSQL cluster starts");
        let empty = |_: &str| Ok::<(), std::fmt::Error>(());
        Self::Postgres(shared.database(&template, empty).expect("a database is made"))
    }

    pub(crate) fn maria() -> Self {
        Self::Maria(SharedMaria::get().expect("a MariaDB starts").database().expect("a database is made"))
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Self::Postgres(database) => database.url().to_owned(),
            Self::Cluster(cluster) => cluster.url("postgres"),
            Self::Maria(database) => database.url().to_owned(),
            Self::Sqlite(path) => format!("sqlite:{}", path.display()),
        }
    }

    /// Rows `from..to`, in one transaction, as any language would insert them.
    pub(crate) fn insert(&self, from: usize, to: usize) {
        let row = |n: usize| {
            let group =
                if n.is_multiple_of(GROUPS) { "NULL".to_owned() } else { format!("'g-{}'", n % GROUPS) };
            format!("('orders', '{n}', 'k-{n:04}', {group})")
        };
        let rows: Vec<_> = (from..to).map(row).collect();
        let columns = "(queue, payload, idempotency_key, job_group)";
        self.sql(&format!("INSERT INTO semel_outbox {columns} VALUES {}", rows.join(", ")));
    }

    pub(crate) fn sql(&self, sql: &str) {
        match self {
            Self::Postgres(database) => drop(database.sql(sql).expect("SQL")),
            Self::Cluster(cluster) => drop(cluster.sql("postgres", sql).expect("SQL")),
            Self::Maria(database) => drop(database.sql(sql).expect("SQL")),
            Self::Sqlite(path) => {
                let database = rusqlite::Connection::open(path).expect("a database");
                database.busy_timeout(DEADLINE).expect("a time-out");
                database.execute_batch(sql).expect("SQL");
            }
        }
    }
}

/// A server with a queue `orders`, and a database with an outbox.
pub(crate) struct Shop {
    pub(crate) base: Base,
    pub(crate) server: Option<Server>,
    pub(crate) address: SocketAddr,
    dir: TempDir,
}

impl Shop {
    pub(crate) fn open(base: impl FnOnce(&TempDir) -> Base) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let server = serve(&dir.path().join("store"), ANYWHERE);
        assert!(server.ask("PUT", "/v1/queues/orders", None, r#"{"delivery":{"type":"pull"}}"#).0 < 300);
        let base = base(&dir);
        base.sql(match &base {
            Base::Postgres(_) | Base::Cluster(_) => schema::POSTGRES,
            Base::Maria(_) => schema::MYSQL,
            Base::Sqlite(_) => schema::SQLITE,
        });
        Self { base, address: server.address, server: Some(server), dir }
    }

    /// Kills the server and starts it again, where it was.
    pub(crate) fn kill_server(&mut self) {
        let server = self.server.take().expect("it runs");
        server.signal(Signal::KILL);
        server.ended();
        self.server = Some(serve(&self.dir.path().join("store"), self.address));
    }

    /// Starts a relay from this address of the database to this one of the server.
    pub(crate) fn relay(&self, database: &str, server: SocketAddr) -> Relay {
        let mut command = semel();
        command.args(["relay", "--database", database, "--server", &format!("http://{server}")]);
        command.args(["--poll", "20", "--batch", "25", "--log-level", "error"]);
        command.stdout(std::process::Stdio::null());
        Relay(command.spawn().expect("a relay starts"))
    }

    /// A relay between the two as they are.
    pub(crate) fn plain_relay(&self) -> Relay {
        self.relay(&self.base.url(), self.address)
    }

    /// `semel relay --once`.
    pub(crate) fn once(&self) -> Ended {
        let server = format!("http://{}", self.address);
        run::semel(&["relay", "--once", "--json", "--database", &self.base.url(), "--server", &server])
    }

    /// The jobs there are, in the order in which they were made.
    pub(crate) fn jobs(&self) -> Vec<Value> {
        let server = self.server.as_ref().expect("it runs");
        let (status, page) = server.ask("GET", "/v1/jobs?queue=orders&limit=1000", None, "");
        assert_eq!(status, 200, "{page}");
        let mut jobs = page["jobs"].as_array().expect("a list").clone();
        jobs.reverse();
        jobs
    }

    /// Waits until there are so many jobs.
    pub(crate) fn until_jobs(&self, count: usize) {
        let start = Instant::now();
        while self.jobs().len() < count {
            assert!(start.elapsed() < DEADLINE, "there are {} jobs and not {count}", self.jobs().len());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// That rows `0..count` were published once each, and in order within their groups.
    pub(crate) fn assert_published(&self, count: usize) {
        let jobs = self.jobs();
        let mut by_group: HashMap<Option<&str>, Vec<&str>> = HashMap::new();
        for job in &jobs {
            let key = job["idempotencyKey"].as_str().expect("a key");
            by_group.entry(job["group"].as_str()).or_default().push(key);
        }
        for (group, keys) in by_group.iter().filter(|(group, _)| group.is_some()) {
            assert!(keys.is_sorted_by(|a, b| a < b), "{group:?}: {keys:?}");
        }
        let mut keys: Vec<_> = by_group.into_values().flatten().collect();
        keys.sort_unstable();
        let expected: Vec<_> = (0..count).map(|n| format!("k-{n:04}")).collect();
        assert_eq!(keys, expected);
    }
}

/// A relay that runs. It is killed when the test is over.
pub(crate) struct Relay(std::process::Child);

impl Relay {
    pub(crate) fn kill(mut self) {
        self.0.kill().expect("it runs");
        self.0.wait().expect("it can be waited for");
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // One that has ended already cannot be killed; that is what is wanted.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
