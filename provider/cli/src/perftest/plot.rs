//! The result as an SVG plot: bandwidth or latency against message size.

use anyhow::{anyhow, Result};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::settings::Settings;
use super::table::Table;

const SIZE: (u32, u32) = (960, 600);
const FONT: &str = "sans-serif";
const COLORS: [RGBColor; 4] =
    [RGBColor(31, 119, 180), RGBColor(255, 127, 14), RGBColor(44, 160, 44), RGBColor(148, 103, 189)];

/// One curve.
struct Curve {
    title: String,
    points: Vec<(f64, f64)>,
}

/// The SVG text, or nothing when the table has nothing to plot.
pub fn svg(settings: &Settings, table: &Table) -> Result<Option<String>> {
    let (curves, unit) = curves(table);
    if curves.is_empty() {
        return Ok(None);
    }
    let mut text = String::new();
    // plotters' errors borrow the text that is drawn into: keep their words.
    draw(settings, &curves, &unit, &mut text).map_err(|error| anyhow!("drawing the plot: {error}"))?;
    Ok(Some(text))
}

fn curves(table: &Table) -> (Vec<Curve>, String) {
    let wanted = ["BW peak", "BW average", "t_min", "t_typical", "t_avg", "99%"];
    let mut unit = String::new();
    let mut curves = Vec::new();
    for start in wanted {
        let Some(column) = table.column(start) else {
            continue;
        };
        let points = table.points(column);
        if points.is_empty() {
            continue;
        }
        let (title, its_unit) = split_unit(&table.columns[column]);
        unit = axis_title(its_unit);
        // Four curves are enough: the typical latency stands for the average.
        if title == "t_avg" && curves.iter().any(|c: &Curve| c.title == "t_typical") {
            continue;
        }
        curves.push(Curve { title: title.to_owned(), points });
    }
    (curves, unit)
}

fn split_unit(title: &str) -> (&str, &str) {
    match title.split_once('[') {
        Some((name, unit)) => (name, unit.trim_end_matches(']')),
        None => (title, ""),
    }
}

fn axis_title(unit: &str) -> String {
    match unit {
        // perftest writes MB/sec and means 2^20 bytes.
        "MB/sec" => "bandwidth [MiB/s]".to_owned(),
        "Gb/sec" => "bandwidth [Gbit/s]".to_owned(),
        "usec" => "latency [us]".to_owned(),
        other => other.to_owned(),
    }
}

fn draw(
    settings: &Settings,
    curves: &[Curve],
    unit: &str,
    text: &mut String,
) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let height = if settings.part_id.is_some() { 78 } else { 60 };
    let (head, body) = root.split_vertically(height);
    draw_head(settings, &head)?;

    let points = || curves.iter().flat_map(|curve| curve.points.iter());
    let x = around(points().map(|point| point.0), 2.0);
    let y = around(points().map(|point| point.1), 10.0);
    let mut chart = ChartBuilder::on(&body)
        .margin(14)
        .x_label_area_size(48)
        .y_label_area_size(84)
        .build_cartesian_2d(x.log_scale().base(2.0), y.log_scale())?;
    chart
        .configure_mesh()
        .x_desc("message size")
        .y_desc(unit)
        .x_labels(14)
        .y_labels(8)
        .x_label_formatter(&|bytes| bytes_text(*bytes))
        .y_label_formatter(&|value| number_text(*value))
        .axis_desc_style((FONT, 16))
        .label_style((FONT, 13))
        .light_line_style(RGBColor(238, 238, 238))
        .bold_line_style(RGBColor(215, 215, 215))
        .draw()?;
    for (curve, color) in curves.iter().zip(COLORS.iter().cycle()) {
        let line = LineSeries::new(curve.points.iter().copied(), color.stroke_width(2));
        chart
            .draw_series(line)?
            .label(curve.title.as_str())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
        let dots = curve.points.iter();
        chart.draw_series(dots.map(|&point| Circle::new(point, 3, color.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.85))
        .border_style(RGBColor(190, 190, 190))
        .label_font((FONT, 14))
        .draw()?;
    root.present()?;
    Ok(())
}

fn draw_head<DB: DrawingBackend>(
    settings: &Settings,
    head: &DrawingArea<DB, plotters::coord::Shift>,
) -> Result<(), DrawingAreaErrorKind<DB::ErrorType>> {
    let middle = SIZE.0 as i32 / 2;
    let centred = Pos::new(HPos::Center, VPos::Top);
    let mut lines = vec![(settings.command(), 22, BLACK), (settings.devices(), 14, RGBColor(90, 90, 90))];
    lines.extend(settings.marker().map(|text| (text, 14, RGBColor(200, 0, 0))));
    let mut y = 10;
    for (text, size, color) in lines {
        let style = (FONT, size).into_font().color(&color).pos(centred);
        head.draw(&Text::new(text, (middle, y), style))?;
        y += size + 6;
    }
    Ok(())
}

/// A range that leaves some room around the values on a logarithmic axis.
fn around(values: impl Iterator<Item = f64>, base: f64) -> std::ops::Range<f64> {
    let (mut low, mut high) = (f64::MAX, f64::MIN);
    for value in values {
        low = low.min(value);
        high = high.max(value);
    }
    let room = base.sqrt();
    (low / room)..(high * room)
}

fn bytes_text(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB"];
    let mut value = bytes;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", number_text(value), units[unit])
}

fn number_text(value: f64) -> String {
    let digits = if value >= 10.0 || value.fract() == 0.0 { 0 } else { 2 };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        let mut table = Table::default();
        for line in text.lines() {
            table.feed(line);
        }
        table
    }

    #[test]
    fn bandwidth_has_title_units_and_marker() {
        let table = table(include_str!("../../tests/data/ib_write_bw.txt"));
        let svg = svg(&Settings::example(), &table).unwrap().unwrap();
        for part in
            ["ib_write_bw -a", "bandwidth [MiB/s]", "message size", "BW average", "part id 4119", "32 KiB"]
        {
            assert!(svg.contains(part), "{part} is missing");
        }
    }

    #[test]
    fn latency_of_one_size_can_be_drawn() {
        let table =
            table(" #bytes        #iterations       t_avg[usec]    tps average\n 2 100 1.69 592033.12\n");
        let svg = svg(&Settings::example(), &table).unwrap().unwrap();
        assert!(svg.contains("latency [us]"));
    }

    #[test]
    fn no_rows_no_plot() {
        assert!(svg(&Settings::example(), &Table::default()).unwrap().is_none());
    }

    #[test]
    fn sizes_read_well() {
        assert_eq!(bytes_text(2.0), "2 B");
        assert_eq!(bytes_text(65536.0), "64 KiB");
        assert_eq!(bytes_text(8388608.0), "8 MiB");
        assert_eq!(number_text(0.5), "0.50");
    }
}
