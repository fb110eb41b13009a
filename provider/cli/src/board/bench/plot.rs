//! The figures as one SVG: latency and bandwidth by size, message rate by QPs.

use anyhow::{anyhow, Result};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::Figures;

const SIZE: (u32, u32) = (1200, 460);
const FONT: &str = "sans-serif";
const COLORS: [RGBColor; 2] = [RGBColor(31, 119, 180), RGBColor(255, 127, 14)];

/// A curve with its name.
type Curve = (&'static str, Vec<(f64, f64)>);

type Drawn = Result<(), Box<dyn std::error::Error>>;

/// The SVG text.
pub fn svg(figures: &Figures) -> Result<String> {
    let mut text = String::new();
    // plotters' errors borrow the text that is drawn into: keep their words.
    draw(figures, &mut text).map_err(|error| anyhow!("drawing the plot: {error}"))?;
    Ok(text)
}

fn draw(figures: &Figures, text: &mut String) -> Drawn {
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let root = root.titled(&format!("verbena bench: {}", figures.device), (FONT, 20))?;
    let areas = root.split_evenly((1, 3));
    let by_size = |value: fn(&super::SizeRow) -> f64| {
        figures.sizes.iter().map(|row| (row.bytes as f64, value(row))).collect::<Vec<_>>()
    };
    let latency: [Curve; 2] =
        [("WRITE", by_size(|row| row.write.median_us)), ("READ", by_size(|row| row.read.median_us))];
    let bandwidth: [Curve; 2] =
        [("WRITE", by_size(|row| row.write_mb_s)), ("READ", by_size(|row| row.read_mb_s))];
    let rate: [Curve; 1] =
        [("WRITE 8 bytes", figures.rates.iter().map(|row| (row.qps as f64, row.mmsg_s)).collect())];
    chart(&areas[0], "message size [bytes]", "median latency [us]", &latency)?;
    chart(&areas[1], "message size [bytes]", "bandwidth [MB/s]", &bandwidth)?;
    chart(&areas[2], "QPs", "message rate [Mmsg/s]", &rate)?;
    root.present()?;
    Ok(())
}

fn chart(area: &DrawingArea<SVGBackend<'_>, Shift>, x_name: &str, y_name: &str, curves: &[Curve]) -> Drawn {
    let points = || curves.iter().flat_map(|(_, points)| points.iter());
    let x = around(points().map(|point| point.0));
    let y = around(points().map(|point| point.1));
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(x.log_scale().base(2.0), y.log_scale())?;
    chart
        .configure_mesh()
        .x_desc(x_name)
        .y_desc(y_name)
        .x_labels(7)
        .y_labels(7)
        .x_label_formatter(&|value| format!("{value:.0}"))
        .y_label_formatter(&|value| format!("{value}"))
        .light_line_style(RGBColor(238, 238, 238))
        .bold_line_style(RGBColor(215, 215, 215))
        .draw()?;
    for ((name, points), color) in curves.iter().zip(COLORS.iter()) {
        let line = LineSeries::new(points.iter().copied(), color.stroke_width(2));
        chart
            .draw_series(line)?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
        chart.draw_series(points.iter().map(|&point| Circle::new(point, 3, color.filled())))?;
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.85)).label_font((FONT, 13)).draw()?;
    Ok(())
}

/// A range with some room around the values, on a logarithmic axis.
fn around(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let (low, high) =
        values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
    low / 1.4..high * 1.4
}
