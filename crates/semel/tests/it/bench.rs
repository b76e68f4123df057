//! A quick benchmark measures everything its table asks for. Its figures prove nothing, its shape does.

use serde_json::Value;

use crate::run::semel;

type Bars = [(&'static str, f64, f64)];

const HTTP: [(&str, f64, f64); 14] = [
    ("single_vs_limit", 0.45, 0.70),
    ("ack_p99_vs_limit", 2.5, 1.6),
    ("cpu_per_10000", 0.30, 0.20),
    ("flushes_per_publish", 0.10, 0.04),
    ("batch_vs_store", 0.60, 0.80),
    ("push_vs_single", 0.40, 0.55),
    ("pull_vs_batch", 0.40, 0.60),
    ("handler_p50", 1.0, 0.5),
    ("handler_p99", 8.0, 3.0),
    ("cpu_at_200", 0.10, 0.04),
    ("blackhole", 0.9, 0.98),
    ("rss_at_rest", 41_943_040.0, 26_214_400.0),
    ("rss_loaded", 104_857_600.0, 62_914_560.0),
    ("binary", 31_457_280.0, 15_728_640.0),
];

const STORE: [(&str, f64, f64); 10] = [
    ("publish_empty_vs_raw", 0.20, 0.35),
    ("publish_full_vs_empty", 0.65, 0.90),
    ("lives_vs_publishes", 0.50, 0.70),
    ("bytes_written_per_job", 2000.0, 1400.0),
    ("commit_p99", 10.0, 2.0),
    ("commit_p999", 100.0, 20.0),
    ("memory_resident", 1_073_741_824.0, 314_572_800.0),
    ("open_after_kill", 5.0, 1.0),
    ("expiry_vs_before", 0.5, 0.8),
    ("single_vs_raw", 0.6, 0.9),
];

const LEDGER: [(&str, f64, f64); 5] = [
    ("effect_vs_insert", 0.6, 0.8),
    ("replay_vs_round_trip", 50.0, 500.0),
    ("seen_vs_set_nx", 0.7, 0.9),
    ("prune_p99", 2.0, 1.2),
    ("relay_vs_batch", 0.5, 0.8),
];

#[test]
fn heavy_a_quick_run_has_every_measure_and_draws_it() {
    let report = quick(&["bench", "store", "--quick", "--keys", "40000", "--jobs", "4000"], "store", &STORE);
    assert_eq!(report["plan"]["keys"], 40_000);
    assert!(report["command"].to_string().contains("semel bench store --keys 40000 --jobs 4000 --runs 1"));
    let share = figure(&report, "repeats answered with the first job");
    assert!((0.02..0.08).contains(&share), "one publish in twenty is a repeat: {share}");
}

#[test]
fn heavy_a_quick_run_over_http_has_every_measure_and_draws_it() {
    let report = quick(&["bench", "http", "--quick"], "http", &HTTP);
    assert!(report["command"].to_string().contains("semel bench http --quick --runs 1"));
    assert!(figure(&report, "single publishes") > 0.0);
}

#[test]
fn heavy_a_quick_run_of_the_ledger_has_every_measure_and_draws_it() {
    let report = quick(&["bench", "ledger", "--quick", "--rows", "2000"], "ledger", &LEDGER);
    assert!(report["command"].to_string().contains("semel bench ledger --quick --runs 1 --rows 2000"));
    assert!(report["notes"].to_string().contains("fewer expired rows"));
    assert!(figure(&report, "rows relayed") > 0.0);
}

/// Runs a benchmark, and checks its report, what it saved and that it left nothing else.
fn quick(args: &[&str], name: &str, bars: &Bars) -> Value {
    // Beside the build and not in the temporary directory: that one may be in memory, where nothing is really synced.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let path = |name: &str| dir.path().join(name);
    std::fs::create_dir(path("stores")).expect("a directory");
    let args: Vec<_> = args.iter().chain(&["--json", "--dir"]).map(std::ffi::OsString::from).collect();
    let paths = [path("stores").into(), "--out".into(), path("out").into()];
    let run = semel(&[&args[..], &paths[..]].concat());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    check_measures(&run.json(), bars);
    let saved = |kind: &str| std::fs::read(path("out").join(format!("{name}.{kind}"))).expect("it is saved");
    let json: Value = serde_json::from_slice(&saved("json")).expect("it is JSON");
    assert_eq!(json, run.json(), "what is saved is what was said");
    check_plot(&String::from_utf8(saved("svg")).expect("it is text"), bars.len());
    assert_eq!(std::fs::read_dir(path("stores")).expect("a directory").count(), 0, "the stores are gone");
    json
}

fn check_measures(report: &Value, bars: &Bars) {
    let measures = report["measures"].as_array().expect("a list of measures");
    assert_eq!(measures.len(), bars.len());
    for (measure, (id, must, aim)) in measures.iter().zip(bars) {
        assert_eq!(measure["id"], *id);
        assert_eq!((measure["must"].as_f64(), measure["aim"].as_f64()), (Some(*must), Some(*aim)), "{id}");
        let measured = measure["measured"].as_f64().unwrap_or_else(|| panic!("{id} was not measured"));
        // What took the server no whole tick of the kernel's clock is 0.
        assert!(measured >= 0.0 && measured.is_finite(), "{id}: {measured}");
        assert_eq!(measure["runs"].as_array().map(Vec::len), Some(1), "{id}");
        let verdicts = ["reaches_aim", "reaches_must", "below_must"];
        assert!(verdicts.iter().any(|verdict| measure["verdict"] == *verdict), "{id}");
    }
    assert!(report["machine"]["cores"].as_u64() > Some(0));
}

fn figure(report: &Value, name: &str) -> f64 {
    let figures = report["figures"].as_array().expect("a list of figures");
    figures
        .iter()
        .find(|f| f["name"] == name)
        .and_then(|f| f["median"].as_f64())
        .expect("the figure is there")
}

fn check_plot(svg: &str, measures: usize) {
    let document = roxmltree::Document::parse(svg).expect("the plot is XML");
    assert!(document.root_element().has_tag_name(("http://www.w3.org/2000/svg", "svg")));
    let count = |name: &str| document.descendants().filter(|node| node.tag_name().name() == name).count();
    assert_eq!(count("rect"), 1 + measures, "the ground, and a bar for each measure");
    assert_eq!(count("circle"), 1 + measures, "the legend, and a dot for each run");
}

#[test]
fn a_run_that_the_disk_cannot_hold_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().to_str().unwrap();
    let run = semel(&["bench", "store", "--keys", "1000000000", "--dir", dir]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("--dir") && run.stderr.contains("free"), "{}", run.stderr);
}
