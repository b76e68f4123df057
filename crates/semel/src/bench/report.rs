//! What was measured, against what must be reached: the part that is judged, printed, plotted and kept as JSON.

use serde::Serialize;

use super::machine::Machine;
use super::targets::{Better, Target};

/// How a figure stands to what it must reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// As good as the aim, or better.
    ReachesAim,
    /// Good enough.
    ReachesMust,
    /// Not good enough.
    BelowMust,
    /// This machine does not tell.
    NotMeasured,
}

impl Verdict {
    /// The verdict in words.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::ReachesAim => "reaches aim",
            Self::ReachesMust => "reaches must",
            Self::BelowMust => "below must",
            Self::NotMeasured => "not measured",
        }
    }
}

/// One line of the table.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Measure {
    /// What is measured, and what it must reach.
    #[serde(flatten)]
    pub target: &'static Target,
    /// The figure of each run, in the order of the runs.
    pub runs: Vec<f64>,
    /// The figure that counts: the median of the runs.
    pub measured: Option<f64>,
    /// How that stands to the target.
    pub verdict: Verdict,
}

impl Measure {
    /// Judges the figures of all runs.
    pub(crate) fn judge(target: &'static Target, runs: Vec<f64>) -> Self {
        let measured = median(&runs);
        let verdict = match measured {
            None => Verdict::NotMeasured,
            Some(value) if target.better.at_least_as_good(value, target.aim) => Verdict::ReachesAim,
            Some(value) if target.better.at_least_as_good(value, target.must) => Verdict::ReachesMust,
            Some(_) => Verdict::BelowMust,
        };
        Self { target, runs, measured, verdict }
    }

    /// How many times as good as it must be: 1 is just enough, 2 is twice as good, whichever way is better.
    pub(crate) fn times_must(&self, value: f64) -> f64 {
        match self.target.better {
            Better::Higher => value / self.target.must,
            Better::Lower => self.target.must / value,
        }
    }
}

impl Better {
    fn at_least_as_good(self, value: f64, bar: f64) -> bool {
        match self {
            Self::Higher => value >= bar,
            Self::Lower => value <= bar,
        }
    }
}

/// The middle one of the figures; the mean of the two middle ones if their number is even.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// A figure behind the table: an absolute rate, a percentile, a count.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figure {
    /// Its name.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// One value per run.
    pub runs: Vec<f64>,
    /// The median of the runs.
    pub median: Option<f64>,
}

impl Figure {
    /// A figure with its values.
    pub(crate) fn new(name: &'static str, unit: &'static str, runs: Vec<f64>) -> Self {
        let median = median(&runs);
        Self { name, unit, runs, median }
    }
}

/// Everything a run of the benchmark found out.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    /// The version of this format.
    pub format: u32,
    /// The version of Semel.
    pub semel: &'static str,
    /// The commit it was built from, as far as git knows.
    pub commit: String,
    /// When the run started, in milliseconds since the Unix epoch.
    pub started_at: u64,
    /// How long it took, in seconds.
    pub took_seconds: f64,
    /// The command that repeats it.
    pub command: String,
    /// Which benchmark.
    pub bench: &'static str,
    /// What was done, in lines for people.
    pub about: Vec<String>,
    /// The same for machines.
    pub plan: serde_json::Value,
    /// Where.
    pub machine: Machine,
    /// What a reader must know to judge the figures.
    pub notes: Vec<String>,
    /// The table.
    pub measures: Vec<Measure>,
    /// The figures behind it.
    pub figures: Vec<Figure>,
}

impl Report {
    /// The lines that are below what they must reach.
    pub(crate) fn below_must(&self) -> impl Iterator<Item = &Measure> {
        self.measures.iter().filter(|m| m.verdict == Verdict::BelowMust)
    }
}

#[cfg(test)]
mod tests {
    use super::super::targets;
    use super::*;

    #[test]
    fn the_median_is_the_middle_run() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[f64::NAN, 1.0]), Some(1.0), "a run that has no figure does not count");
    }

    #[test]
    fn a_figure_is_judged_the_way_that_is_better() {
        let rate = |value| Measure::judge(&targets::PUBLISH, vec![value]).verdict;
        assert_eq!(
            [rate(0.19), rate(0.20), rate(0.35)],
            [Verdict::BelowMust, Verdict::ReachesMust, Verdict::ReachesAim]
        );
        let bytes = |value| Measure::judge(&targets::BYTES, vec![value]).verdict;
        assert_eq!(
            [bytes(2001.0), bytes(2000.0), bytes(1400.0)],
            [Verdict::BelowMust, Verdict::ReachesMust, Verdict::ReachesAim]
        );
        assert_eq!(Measure::judge(&targets::MEMORY, vec![]).verdict, Verdict::NotMeasured);
    }

    #[test]
    fn twice_as_good_is_two_whichever_way_is_better() {
        let measure = |target| Measure::judge(target, vec![]);
        assert!((measure(&targets::PUBLISH).times_must(0.4) - 2.0).abs() < 1e-9);
        assert!((measure(&targets::BYTES).times_must(1000.0) - 2.0).abs() < 1e-9);
    }
}
