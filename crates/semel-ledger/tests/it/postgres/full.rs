//! A PostgreSQL whose disk is full refuses, and goes on when there is room.

use std::path::{Path, PathBuf};
use std::process::Command;

use semel_cluster::Cluster;
use semel_ledger::StoreErrorKind;
use semel_ledger::store::{Hold, Store};
use tempfile::TempDir;

use super::{client, tokio_store};
use crate::trouble::{MINUTE, granted};

/// A disk of one megabyte, which PostgreSQL may write to. It is unmounted when it is dropped.
struct Disk {
    directory: TempDir,
}

impl Disk {
    fn mount() -> Result<Self, String> {
        let directory = tempfile::tempdir().unwrap();
        run(Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m,mode=777", "tmpfs"])
            .arg(directory.path()))?;
        let disk = Self { directory };
        run(Command::new("chmod").arg("755").arg(disk.directory.path()))?;
        std::fs::create_dir(disk.place()).unwrap();
        run(Command::new("chown").arg("postgres").arg(disk.place()))?;
        Ok(disk)
    }

    fn place(&self) -> PathBuf {
        self.directory.path().join("space")
    }

    fn fill(&self) -> PathBuf {
        let filler = self.directory.path().join("filler");
        // As much as fits: the last write fails.
        std::fs::write(&filler, vec![0_u8; 2 << 20]).unwrap_err();
        filler
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let unmounted = run(Command::new("umount").arg("--lazy").arg(Path::new(self.directory.path())));
        if let Err(error) = unmounted {
            eprintln!("{error}");
        }
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_a_full_postgres_refuses_and_goes_on_when_there_is_room() {
    let disk = match Disk::mount() {
        Ok(disk) => disk,
        Err(why) => return println!("SKIPPED: a full PostgreSQL: {why}"),
    };
    let cluster = Cluster::start().unwrap();
    let (admin, store) = (client(&cluster.url("postgres")).await, tokio_store(&cluster.url("postgres")));
    store.ensure_schema().await.unwrap();
    let space = format!("CREATE TABLESPACE small LOCATION '{}'", disk.place().display());
    admin.batch_execute(&space).await.unwrap();
    admin.batch_execute("ALTER TABLE semel_ledger.entry SET TABLESPACE small").await.unwrap();
    let holder = granted(&store, "one").await;
    let filler = disk.fill();
    // Random digits: compressed, they still do not fit into what is left of a page.
    let long = format!("\"{}\"", random_text(200_000));
    let error = store.complete(&holder, &long, MINUTE).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
    std::fs::remove_file(filler).unwrap();
    assert_eq!(store.complete(&holder, &long, MINUTE).await.unwrap(), Hold::Held(()));
    drop(cluster);
}

fn random_text(length: usize) -> String {
    let digits = std::iter::repeat_with(|| semel_ledger::store::Owner::random().to_string());
    digits.flat_map(String::into_bytes).take(length).map(char::from).collect()
}
