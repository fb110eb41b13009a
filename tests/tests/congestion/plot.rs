//! Draws docs/congestion-queue.svg: the queue of the port that all flows send to, over time.

use std::fmt::Write as _;

use crate::MS;

/// What is drawn: until this time, and up to this queue (bytes).
pub const END: u64 = 50 * MS;
const HIGHEST: f64 = 300_000.0;
/// Between two looks.
pub const STEP: u64 = MS / 10;
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 280.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 20.0;
/// Of each curve.
const COLORS: [&str; 3] = ["#b2182b", "#2166ac", "#1b7837"];

fn x(at: u64) -> f64 {
    LEFT + at as f64 / END as f64 * WIDTH
}

fn y(queue: f64) -> f64 {
    TOP + HEIGHT * (1.0 - queue.min(HIGHEST) / HIGHEST)
}

/// The drawing of these curves: how many flows, and their mean queue in each step.
pub fn drawing(curves: [(u8, &[f64]); 3]) -> String {
    let (width, height) = (LEFT + WIDTH + 20.0, TOP + HEIGHT + 45.0);
    let mut svg = format!("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\"");
    svg += " font-family=\"sans-serif\" font-size=\"12\">\n";
    svg += "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
    let mut put = |line: String| writeln!(svg, "{line}").expect("a string takes all");
    for kb in [0, 100, 200, 300] {
        let at = y(f64::from(kb) * 1000.0);
        put(format!("<path d=\"M{LEFT} {at:.1}h{WIDTH}\" stroke=\"#ddd\"/>"));
        let (left, at) = (LEFT - 6.0, at + 4.0);
        put(format!("<text x=\"{left}\" y=\"{at:.1}\" text-anchor=\"end\">{kb} KB</text>"));
    }
    for ms in (0..=50).step_by(10) {
        let (at, below) = (x(ms * MS), TOP + HEIGHT + 18.0);
        put(format!("<text x=\"{at:.1}\" y=\"{below}\" text-anchor=\"middle\">{ms} ms</text>"));
    }
    for (nth, ((flows, queue), color)) in curves.into_iter().zip(COLORS).enumerate() {
        let points: Vec<String> = (STEP..=END)
            .step_by(STEP as usize)
            .zip(queue)
            .map(|(at, &mean)| format!("{:.1} {:.1}", x(at), y(mean)))
            .collect();
        put(format!("<path d=\"M{}\" fill=\"none\" stroke=\"{color}\"/>", points.join("L")));
        let (at, top) = (LEFT + WIDTH - 260.0 + 90.0 * nth as f64, TOP + 12.0);
        put(format!("<text x=\"{at}\" y=\"{top}\" fill=\"{color}\">{flows} flows</text>"));
    }
    svg + "</svg>\n"
}
