//! SIGKILL at random moments, over and over on one store: nothing that was answered is lost (fault 1 of the proof).

use std::path::Path;
use std::time::Duration;

use semel_proof::campaign::Campaign;
use semel_proof::checker::Verdict;
use semel_proof::child::Running;
use semel_proof::dice::Dice;
use semel_proof::settings;

/// A restart may take this long, whatever the kill interrupted.
const RESTART_MAX: Duration = Duration::from_secs(5);

#[test]
fn heavy_kill_loop() {
    let rounds = settings::number("SEMEL_KILL_ROUNDS", 20);
    let seed = settings::seed();
    println!("kill loop: {rounds} rounds, SEMEL_SEED={seed}");
    let home = tempfile::tempdir().unwrap();
    let mut campaign = Campaign::new(&home.path().join("store"), seed);
    let mut dice = Dice::new(seed);
    for round in 1..=rounds {
        let child = Running::spawn(campaign.child(Path::new(env!("CARGO_BIN_EXE_proof-child")))).unwrap();
        // Now and then the kill comes while the store is still being opened.
        let early = round > 1 && dice.chance(20);
        if !early {
            child.first_ok().unwrap();
        }
        let delay = if early { dice.within(0..=80) } else { dice.within(50..=400) };
        let gone = child.kill_after(Duration::from_millis(delay)).unwrap();
        assert!(gone.was_killed(), "round {round}: the child ended by itself: {}", gone.status);
        let before = campaign.book().oks();
        campaign.absorb(&gone.history).unwrap();
        let reopened = campaign.reopen().unwrap();
        let report = campaign.judge(&reopened.store).unwrap();
        println!(
            "round {round:3}: killed {delay:3} ms after {}, {:6} operations answered ({:7} in all), \
             open again in {:4} ms, {} breaches",
            if early { "its start" } else { "its first answer" },
            report.oks - before,
            report.oks,
            reopened.took.as_millis(),
            report.count
        );
        assert_eq!(report.count, 0, "seed {seed}, round {round}: {report}\n{}", campaign.explain(&report));
        assert!(reopened.took < RESTART_MAX, "seed {seed}, round {round}: {:?} to open", reopened.took);
    }
    let (report, drained) = campaign.finish().unwrap();
    println!("drained {} jobs, waited {} times: {report}", drained.jobs, drained.waits);
    assert_eq!(report.verdict(), Verdict::Holds, "seed {seed}: {report}");
}
