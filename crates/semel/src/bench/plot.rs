//! The report as a picture: one bar per measure, on one axis. The axis is "times as good as it must be", logarithmic,
//! because ratios, bytes, milliseconds and memory have nothing else in common.

use std::fmt::Write;

use super::report::{Measure, Report, Verdict};

const WIDTH: f64 = 1000.0;
/// Where the bars start: left of it are the titles.
const LEFT: f64 = 400.0;
/// Where the axis ends: right of it are the figures.
const RIGHT: f64 = 830.0;
const TOP: f64 = 110.0;
const ROW: f64 = 38.0;
/// The axis goes from a quarter of what must be reached to sixteen times as good; what is beyond is drawn at the end.
const AXIS: (f64, f64) = (0.25, 16.0);
const TICKS: [f64; 7] = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0];

/// Draws the report as an SVG document.
pub(crate) fn svg(report: &Report) -> String {
    #[expect(clippy::cast_precision_loss, reason = "there are ten rows")]
    let bottom = TOP + ROW * report.measures.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"system-ui, sans-serif\" \
         font-size=\"14\" fill=\"#1f2430\">\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n",
        height = bottom + 70.0,
    );
    heading(&mut svg, report);
    axis(&mut svg, bottom);
    let mut y = TOP;
    for measure in &report.measures {
        row(&mut svg, measure, y);
        y += ROW;
    }
    legend(&mut svg, bottom + 50.0);
    svg.push_str("</svg>\n");
    svg
}

fn heading(svg: &mut String, report: &Report) {
    let about = report.about.first().map(String::as_str).unwrap_or_default();
    let under = format!("commit {} · {}", report.commit, report.machine.summary());
    let title = format!("semel bench {}", report.bench);
    text(svg, 24.0, 36.0, "start", "font-size=\"20\" font-weight=\"600\"", &title);
    text(svg, 24.0, 56.0, "start", "font-size=\"12\" fill=\"#5b6372\"", about);
    text(svg, 24.0, 73.0, "start", "font-size=\"12\" fill=\"#5b6372\"", &under);
}

fn axis(svg: &mut String, bottom: f64) {
    for tick in TICKS {
        let x = place(tick);
        let must = (tick - 1.0).abs() < f64::EPSILON;
        let (colour, width) = if must { ("#1f2430", 1.5) } else { ("#e3e6eb", 1.0) };
        element(
            svg,
            format_args!(
                "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\" stroke=\"{colour}\" stroke-width=\"{width}\"/>"
            ),
        );
        let label = if must { "must".to_owned() } else { format!("{tick}×") };
        text(svg, x, TOP - 10.0, "middle", "font-size=\"12\" fill=\"#5b6372\"", &label);
    }
}

fn row(svg: &mut String, measure: &Measure, top: f64) {
    let middle = top + ROW / 2.0;
    text(svg, LEFT - 14.0, middle + 5.0, "end", "", measure.target.title);
    if let Some(measured) = measure.measured {
        bar(svg, measure, measured, top);
    }
    aim_mark(svg, place(measure.times_must(measure.target.aim)), top);
    for &run in &measure.runs {
        let x = place(measure.times_must(run));
        element(
            svg,
            format_args!(
                "<circle cx=\"{x:.1}\" cy=\"{middle:.1}\" r=\"3\" fill=\"#1f2430\" fill-opacity=\"0.55\"/>"
            ),
        );
    }
    figures(svg, measure, middle);
}

/// The figure itself, and the bars it is held against.
fn figures(svg: &mut String, measure: &Measure, middle: f64) {
    let target = measure.target;
    let figure = measure.measured.map_or_else(|| "not measured".into(), |value| target.unit.text(value));
    let bars = format!("must {} · aim {}", target.unit.text(target.must), target.unit.text(target.aim));
    text(svg, RIGHT + 20.0, middle, "start", "font-weight=\"600\"", &figure);
    text(svg, RIGHT + 20.0, middle + 13.0, "start", "font-size=\"10\" fill=\"#5b6372\"", &bars);
}

/// The bar starts at "must", so that its length is how much is in hand, or missing.
fn bar(svg: &mut String, measure: &Measure, measured: f64, top: f64) {
    let (from, to) = (place(1.0), place(measure.times_must(measured)));
    let (x, width) = (from.min(to), (from - to).abs().max(1.0));
    let colour = match measure.verdict {
        Verdict::ReachesAim => "#2f9e6e",
        Verdict::ReachesMust => "#8fc9a9",
        Verdict::BelowMust | Verdict::NotMeasured => "#d8574a",
    };
    let (y, height) = (top + 8.0, ROW - 16.0);
    element(
        svg,
        format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"2\" fill=\"{colour}\"/>"
        ),
    );
}

fn aim_mark(svg: &mut String, x: f64, top: f64) {
    let (from, to) = (top + 4.0, top + ROW - 4.0);
    element(
        svg,
        format_args!(
            "<line x1=\"{x:.1}\" y1=\"{from:.1}\" x2=\"{x:.1}\" y2=\"{to:.1}\" stroke=\"#3867d6\" stroke-width=\"2\" stroke-dasharray=\"3 2\"/>"
        ),
    );
}

fn legend(svg: &mut String, y: f64) {
    aim_mark(svg, 40.0, y - 5.0 - ROW / 2.0);
    text(svg, 50.0, y, "start", "font-size=\"12\" fill=\"#5b6372\"", "aim");
    element(
        svg,
        format_args!(
            "<circle cx=\"110\" cy=\"{:.1}\" r=\"3\" fill=\"#1f2430\" fill-opacity=\"0.55\"/>",
            y - 4.0
        ),
    );
    text(svg, 120.0, y, "start", "font-size=\"12\" fill=\"#5b6372\"", "one run");
    let scale = "right of “must” is better; 2× is twice as good as it must be (logarithmic)";
    text(svg, LEFT, y, "start", "font-size=\"12\" fill=\"#5b6372\"", scale);
}

/// Where a multiple of "must" lies on the axis.
fn place(times: f64) -> f64 {
    let (low, high) = (AXIS.0.ln(), AXIS.1.ln());
    let at = times.max(f64::MIN_POSITIVE).ln().clamp(low, high);
    LEFT + (RIGHT - LEFT) * (at - low) / (high - low)
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, style: &str, content: &str) {
    let content = escape(content);
    element(
        svg,
        format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" {style}>{content}</text>"),
    );
}

/// Adds an element. Writing to a `String` cannot fail.
fn element(svg: &mut String, element: std::fmt::Arguments<'_>) {
    svg.write_fmt(element).expect("a String takes everything");
    svg.push('\n');
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_is_logarithmic_and_ends_hold_what_is_beyond() {
        assert!((place(0.25) - LEFT).abs() < 1e-9);
        assert!((place(16.0) - RIGHT).abs() < 1e-9);
        assert!((place(1.0) - place(0.5) - (place(4.0) - place(2.0))).abs() < 1e-9);
        assert!((place(0.0) - LEFT).abs() < 1e-9 && (place(1e9) - RIGHT).abs() < 1e-9);
    }

    #[test]
    fn names_cannot_break_the_picture() {
        assert_eq!(escape("a<b>&c"), "a&lt;b&gt;&amp;c");
    }
}
