//! Draws docs/congestion-queue.svg: the queue of the port that 2, 4 and 8 flows send to, over time.
//!
//! `cargo run --release -p tests --example congestion_plot > docs/congestion-queue.svg`

#[allow(dead_code)]
#[path = "../tests/congestion/traffic.rs"]
mod traffic;

use traffic::{at_40g, Flow, Traffic};

const MS: u64 = 1_000_000_000;
/// What is drawn: until this time, and up to this queue (bytes).
const END: u64 = 50 * MS;
const HIGHEST: f64 = 300_000.0;
/// Between two looks.
const STEP: u64 = MS / 10;
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 280.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 20.0;

fn x(at: u64) -> f64 {
    LEFT + at as f64 / END as f64 * WIDTH
}

fn y(queue: f64) -> f64 {
    TOP + HEIGHT * (1.0 - queue.min(HIGHEST) / HIGHEST)
}

fn main() {
    let (width, height) = (LEFT + WIDTH + 20.0, TOP + HEIGHT + 45.0);
    println!("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">");
    println!("<rect width=\"100%\" height=\"100%\" fill=\"white\"/>");
    for kb in [0, 100, 200, 300] {
        let at = y(f64::from(kb) * 1000.0);
        println!("<path d=\"M{LEFT} {at:.1}h{WIDTH}\" stroke=\"#ddd\"/>");
        println!("<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{kb} KB</text>", LEFT - 6.0, at + 4.0);
    }
    for ms in (0..=50).step_by(10) {
        println!(
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{ms} ms</text>",
            x(ms * MS),
            TOP + HEIGHT + 18.0
        );
    }
    for (nth, (flows, color)) in [(8, "#b2182b"), (4, "#2166ac"), (2, "#1b7837")].into_iter().enumerate() {
        let senders: Vec<Flow> = (1..=flows).map(|from| Flow { from, to: 0 }).collect();
        let mut traffic = Traffic::start(at_40g(), "pfc", Some("dcqcn"), &senders);
        let mut line = String::new();
        let mut before = traffic.port(0);
        for at in (STEP..=END).step_by(STEP as usize) {
            traffic.run_until(at);
            let now = traffic.port(0);
            let mean = (now.counts.byte_ns - before.counts.byte_ns) as f64
                / ((now.at - before.at).max(1) as f64 / 1000.0);
            line += &format!("{}{:.1} {:.1}", if line.is_empty() { "M" } else { "L" }, x(at), y(mean));
            before = now;
        }
        println!("<path d=\"{line}\" fill=\"none\" stroke=\"{color}\"/>");
        let at = LEFT + WIDTH - 260.0 + 90.0 * nth as f64;
        println!("<text x=\"{at}\" y=\"{}\" fill=\"{color}\">{flows} flows</text>", TOP + 12.0);
    }
    println!("</svg>");
}
