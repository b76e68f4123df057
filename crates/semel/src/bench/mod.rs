//! `semel bench`: every figure that must be reached, measured in one run on one machine. `store` is here, `http` and `ledger`
//! in folders of their own; what they find out looks the same.

pub(crate) mod child;
mod drive;
pub(crate) mod http;
pub(crate) mod ledger;
mod machine;
mod measure;
mod plan;
mod plot;
mod procfs;
mod raw;
mod report;
mod rounds;
mod table;
mod targets;
mod workload;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use semel_store::{Clock, SystemClock};

pub(crate) use self::plan::Plan;
pub(crate) use self::report::Report;
pub(crate) use self::table::render;

use self::machine::Machine;
use crate::failure::Failure;
use crate::progress::Progress;

/// The version of the report's JSON.
const FORMAT: u32 = 1;

/// Runs the benchmark below `dir` and leaves nothing there.
pub(crate) fn run(
    plan: &Plan,
    dir: &Path,
    command: String,
    progress: &mut Progress,
) -> Result<Report, Failure> {
    let start = Instant::now();
    let started_at = SystemClock::new().now().millis();
    let scratch = tempfile::Builder::new()
        .prefix("semel-bench-")
        .tempdir_in(dir)
        .map_err(Failure::io(format!("make a directory in {}", dir.display())))?;
    machine::require_space(scratch.path(), plan.disk_bytes())?;
    let machine = Machine::describe(scratch.path());
    let notes = notes(&machine, plan);
    notes.iter().for_each(|note| progress.note(&format!("note: {note}")));
    let rounds = rounds::run(plan, scratch.path(), progress)?;
    progress.finish();
    Ok(Report {
        format: FORMAT,
        semel: env!("CARGO_PKG_VERSION"),
        commit: machine::commit(),
        started_at,
        took_seconds: start.elapsed().as_secs_f64(),
        command,
        bench: "store",
        about: plan.about(),
        plan: serde_json::to_value(plan).unwrap_or_default(),
        machine,
        notes,
        measures: rounds.measures(),
        figures: rounds.figures(),
    })
}

/// What would make the figures say less than they seem to.
fn notes(machine: &Machine, plan: &Plan) -> Vec<String> {
    let mut notes = machine_notes(machine);
    if plan.keys < Plan::full().keys {
        notes.push("fewer keys than the 10,000,000 that the bars are about".into());
    }
    notes
}

/// What about the machine spoils the figures.
fn machine_notes(machine: &Machine) -> Vec<String> {
    let mut notes = Vec::new();
    if machine.is_in_memory() {
        notes.push(
            "the directory is in memory: fsync costs nothing here, so no figure means anything; use --dir"
                .into(),
        );
    }
    if machine.is_busy() {
        notes.push(format!(
            "others kept this machine busy (load {:.1}): the figures are disturbed",
            machine.load
        ));
    }
    if !machine.optimised {
        notes
            .push("this is a debug build: rates and latencies are far below those of a release build".into());
    }
    notes
}

/// Where the stores go unless somebody says: beside the build, which is on a real disk where temporary directories
/// often are not.
pub(crate) fn default_dir() -> PathBuf {
    let target = PathBuf::from("target");
    if target.is_dir() { target } else { env::temp_dir() }
}

/// Writes the report as JSON and as SVG; returns where.
pub(crate) fn save(report: &Report, out: &Path) -> Result<[PathBuf; 2], Failure> {
    fs::create_dir_all(out).map_err(Failure::io(format!("make {}", out.display())))?;
    let paths = ["json", "svg"].map(|kind| out.join(format!("{}.{kind}", report.bench)));
    let json = serde_json::to_string_pretty(report)
        .map_err(|e| Failure::Io { what: "write JSON".into(), source: e.into() })?;
    let contents = [json + "\n", plot::svg(report)];
    for (path, content) in paths.iter().zip(contents) {
        fs::write(path, content).map_err(Failure::io(format!("write {}", path.display())))?;
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        Machine {
            file_system: "ext4".into(),
            load: 0.0,
            cores: 2,
            optimised: true,
            ..Machine::describe(Path::new("/"))
        }
    }

    #[test]
    fn what_spoils_the_figures_is_said() {
        assert_eq!(notes(&machine(), &Plan::full()), [""; 0]);
        let said = |machine: Machine, plan: Plan| notes(&machine, &plan).join("; ");
        let in_memory = Machine { file_system: "tmpfs".into(), ..machine() };
        assert!(said(in_memory, Plan::full()).contains("in memory"));
        assert!(said(Machine { load: 1.5, ..machine() }, Plan::full()).contains("busy (load 1.5)"));
        assert!(said(Machine { optimised: false, ..machine() }, Plan::full()).contains("debug build"));
        assert!(said(machine(), Plan::quick()).contains("fewer keys"));
    }

    #[test]
    fn a_quick_run_fits_on_a_small_disk() {
        let needs = [
            Plan::quick().disk_bytes(),
            http::Plan::quick().disk_bytes(),
            http::postgres::Plan::quick().disk_bytes(),
            ledger::Plan::quick().disk_bytes(),
        ];
        assert!(needs.iter().all(|need| *need < 1 << 30), "{needs:?}");
    }
}
