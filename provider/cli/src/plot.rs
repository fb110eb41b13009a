//! Plots, as SVG: parts of a page, and pictures of their own.
//!
//! What is neither curve nor bar is drawn in one colour, which becomes the page's text colour: so the
//! plots read well on a light and on a dark page. A page has its own legends.

use anyhow::{anyhow, Result};
use maud::{html, PreEscaped};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::series::DashedLineSeries;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Size of a plot of curves in pixels.
const WIDTH: u32 = 720;
const HEIGHT: u32 = 360;
/// Height of a line of text in a picture.
const LINE: u32 = 22;

const FONT: &str = "sans-serif";
const INK: RGBColor = BLACK;
/// Values further apart than this are shown on a logarithmic axis.
const WIDE: f64 = 20.0;

/// For curves and bars: readable on white and on near-black.
const COLORS: [RGBColor; 15] = [
    RGBColor(31, 119, 180),
    RGBColor(230, 115, 20),
    RGBColor(44, 160, 44),
    RGBColor(200, 60, 60),
    RGBColor(148, 103, 189),
    RGBColor(140, 100, 75),
    RGBColor(215, 100, 185),
    RGBColor(127, 127, 127),
    RGBColor(170, 170, 40),
    RGBColor(23, 170, 190),
    RGBColor(90, 130, 220),
    RGBColor(240, 160, 90),
    RGBColor(110, 190, 110),
    RGBColor(180, 180, 180),
    RGBColor(95, 95, 105),
];

/// The colour of a curve or part, for the page.
pub fn css_color(at: usize) -> String {
    let RGBColor(red, green, blue) = COLORS[at % COLORS.len()];
    format!("#{red:02X}{green:02X}{blue:02X}")
}

pub struct Line {
    /// For the legend.
    pub name: String,
    /// Index of its colour.
    pub color: usize,
    /// Drawn with dashes.
    pub dashed: bool,
    /// By x.
    pub points: Vec<(f64, f64)>,
}

/// What the axes of a chart are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axes {
    /// x is logarithmic, in bytes; y is linear, or logarithmic if its values are far apart.
    Bytes,
    /// The same for numbers.
    Numbers,
    /// x is linear, and y the part of all that is not above it, from 0 to 1.
    Distribution,
}

/// Curves.
pub struct Chart<'a> {
    /// What it shows, for readers who do not see it.
    pub title: &'a str,
    pub x_title: &'a str,
    pub y_title: &'a str,
    pub axes: Axes,
    /// A level to mark, such as 1 for ratios. With it the y axis does not begin at 0.
    pub level: Option<f64>,
    pub lines: Vec<Line>,
}

/// Draws curves; an empty text when there are no points.
pub fn chart(chart: &Chart<'_>) -> Result<String> {
    let size = (WIDTH, HEIGHT);
    if chart.lines.iter().all(|line| line.points.is_empty()) {
        return Ok(String::new());
    }
    let mut text = String::new();
    // plotters' errors borrow the text that is drawn into: keep their words.
    draw_chart(chart, SVGBackend::with_string(&mut text, size).into_drawing_area())
        .map_err(|error| anyhow!("drawing `{}`: {error}", chart.title))?;
    Ok(themed(&text, chart.title))
}

/// Charts as a picture of their own: `head` on top, each chart below its legend, on white. `None` when there are no
/// points.
pub fn picture(head: &[String], charts: &[Chart<'_>]) -> Result<Option<String>> {
    let mut bottom = LINE * head.len() as u32;
    let mut drawn = Vec::new();
    for one in charts {
        let plot = chart(one)?;
        if !plot.is_empty() {
            let top = bottom + LINE * one.lines.len() as u32 + 8;
            drawn.push((bottom, top, one, plot));
            bottom = top + HEIGHT;
        }
    }
    if drawn.is_empty() {
        return Ok(None);
    }
    let page = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (WIDTH) " " (bottom) } width=(WIDTH) height=(bottom)
            color="#222222" font-family="sans-serif" font-size="15" {
            rect width="100%" height="100%" fill="#ffffff" {}
            @for (at, text) in head.iter().enumerate() {
                text x="14" y=(LINE * (at as u32 + 1)) fill="currentColor"
                    font-weight=[(at == 0).then_some("bold")] { (text) }
            }
            @for (start, top, chart, plot) in &drawn {
                @for (at, line) in chart.lines.iter().enumerate() {
                    @let y = start + LINE * (at as u32 + 1) - 5;
                    line x1="14" x2="50" y1=(y) y2=(y) stroke=(css_color(line.color)) stroke-width="3"
                        stroke-dasharray=[line.dashed.then_some("7 5")] {}
                    text x="60" y=(y + 5) fill="currentColor" { (line.name) }
                }
                g transform={ "translate(0 " (top) ")" } { (PreEscaped(plot)) }
            }
        }
    };
    Ok(Some(page.into_string() + "\n"))
}

fn draw_chart<'a>(
    chart: &Chart<'_>,
    root: DrawingArea<SVGBackend<'a>, Shift>,
) -> Result<(), Box<dyn std::error::Error + 'a>> {
    let points = || chart.lines.iter().flat_map(|line| line.points.iter());
    let distribution = chart.axes == Axes::Distribution;
    let along = |x: f64| if distribution { x } else { x.log2() };
    let (left, right) = limits(points().map(|point| along(point.0)));
    let beside = if distribution { ((right - left) * 0.04).max(right * 1e-3) } else { 0.4 };
    let (left, right) = (left - beside, right + beside);
    let (low, high) = limits(points().map(|point| point.1).chain(chart.level));
    let log = !distribution && low > 0.0 && high / low > WIDE;
    let scaled = |value: f64| if log { value.log10() } else { value };
    let (bottom, top) = match (log, chart.level) {
        (true, _) => (low.log10() - 0.15, high.log10() + 0.15),
        (false, Some(level)) => {
            let room = ((high - low) * 0.15).max(level * 0.02);
            (low - room, high + room)
        }
        (false, None) if distribution => (0.0, 1.04),
        (false, None) => (0.0, high * 1.1),
    };
    let mut context = ChartBuilder::on(&root)
        .margin(10)
        .x_label_area_size(50)
        .y_label_area_size(86)
        .build_cartesian_2d(left..right, bottom..top)?;
    let x_label = |x: &f64| match chart.axes {
        Axes::Distribution => number_text(*x),
        _ if x.fract().abs() >= 1e-6 => String::new(),
        Axes::Bytes => bytes_text(x.exp2()),
        Axes::Numbers => number_text(x.exp2()),
    };
    let y_label = |y: &f64| match log {
        true if y.fract().abs() < 1e-6 => number_text(10f64.powf(*y)),
        // Less than two decades would have one label.
        true if top - bottom < 2.0 => format!("{:.1$}", 10f64.powf(*y), usize::from(*y < 1.0)),
        true => String::new(),
        false => number_text(*y),
    };
    context
        .configure_mesh()
        .x_desc(chart.x_title)
        .y_desc(chart.y_title)
        .x_labels(12)
        .y_labels(8)
        .x_label_formatter(&x_label)
        .y_label_formatter(&y_label)
        .axis_desc_style((FONT, 17).into_font().color(&INK))
        .label_style((FONT, 15).into_font().color(&INK))
        .axis_style(INK.mix(0.6))
        .light_line_style(INK.mix(0.0))
        .bold_line_style(INK.mix(0.12))
        .draw()?;
    if let Some(level) = chart.level {
        let ends = [left, right].map(|x| (x, scaled(level)));
        context.draw_series(LineSeries::new(ends, INK.mix(0.5)))?;
    }
    for line in &chart.lines {
        let color = COLORS[line.color % COLORS.len()];
        let points: Vec<(f64, f64)> = line.points.iter().map(|(x, y)| (along(*x), scaled(*y))).collect();
        if line.dashed {
            let dashes = DashedLineSeries::new(points.iter().copied(), 7, 5, color.stroke_width(2));
            context.draw_series(dashes)?;
        } else {
            context.draw_series(LineSeries::new(points.iter().copied(), color.stroke_width(2)))?;
        }
        if !distribution {
            context.draw_series(points.iter().map(|point| Circle::new(*point, 3, color.filled())))?;
        }
    }
    root.present()?;
    Ok(())
}

/// A bar of stacked parts.
pub struct Bar {
    pub label: String,
    /// Index of the colour, and length.
    pub parts: Vec<(usize, f64)>,
}

/// Draws bars one below the other, over an axis from 0.
pub fn bars(title: &str, x_title: &str, bars: &[Bar]) -> Result<String> {
    let mut text = String::new();
    let size = (720, 62 + 30 * bars.len() as u32);
    draw_bars(x_title, bars, SVGBackend::with_string(&mut text, size).into_drawing_area())
        .map_err(|error| anyhow!("drawing `{title}`: {error}"))?;
    Ok(themed(&text, title))
}

fn draw_bars<'a>(
    x_title: &str,
    bars: &[Bar],
    root: DrawingArea<SVGBackend<'a>, Shift>,
) -> Result<(), Box<dyn std::error::Error + 'a>> {
    let length = |bar: &Bar| bar.parts.iter().map(|part| part.1).sum::<f64>();
    let longest = bars.iter().map(length).fold(0.0, f64::max);
    let count = bars.len() as f64;
    let mut context = ChartBuilder::on(&root)
        .margin(6)
        .x_label_area_size(48)
        .y_label_area_size(150)
        .build_cartesian_2d(0.0..longest.max(1.0) * 1.12, 0.0..count)?;
    context
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .x_desc(x_title)
        .x_labels(8)
        .x_label_formatter(&|value| number_text(*value))
        .axis_desc_style((FONT, 17).into_font().color(&INK))
        .label_style((FONT, 15).into_font().color(&INK))
        .axis_style(INK.mix(0.6))
        .light_line_style(INK.mix(0.0))
        .bold_line_style(INK.mix(0.12))
        .draw()?;
    let style = |h| (FONT, 15).into_font().color(&INK).pos(Pos::new(h, VPos::Center));
    for (at, bar) in bars.iter().enumerate() {
        let middle = count - at as f64 - 0.5;
        let mut reached = 0.0;
        for (color, part) in &bar.parts {
            let corners = [(reached, middle - 0.36), (reached + part, middle + 0.36)];
            context.draw_series([Rectangle::new(corners, COLORS[color % COLORS.len()].filled())])?;
            reached += part;
        }
        let (x, y) = context.backend_coord(&(0.0, middle));
        root.draw(&Text::new(bar.label.clone(), (x - 8, y), style(HPos::Right)))?;
        let (x, y) = context.backend_coord(&(reached, middle));
        root.draw(&Text::new(format!("{reached:.0}"), (x + 6, y), style(HPos::Left)))?;
    }
    root.present()?;
    Ok(())
}

/// The plot in the page's colours, with a name.
fn themed(svg: &str, title: &str) -> String {
    let title = title.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;");
    svg.replace("\"#000000\"", "\"currentColor\"").replacen(
        "<svg ",
        &format!("<svg role=\"img\" aria-label=\"{title}\" "),
        1,
    )
}

fn limits(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)))
}

/// `65536` as `64 KiB`.
pub fn bytes_text(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB"];
    let (mut value, mut unit) = (bytes, 0);
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", number_text(value), units[unit])
}

fn number_text(value: f64) -> String {
    // Five digits: 0.1 + 0.2 is 0.3.
    let near: f64 = format!("{value:.4e}").parse().unwrap_or(value);
    near.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(bytes_text(65536.0), "64 KiB");
        assert_eq!(number_text(10f64.powf(3.0)), "1000");
        assert_eq!(number_text(0.1 + 0.2), "0.3");
        assert_eq!(number_text(10f64.powf(-4.0)), "0.0001");
    }

    #[test]
    fn the_ink_is_the_pages() {
        let line =
            Line { name: "C".to_owned(), color: 0, dashed: true, points: vec![(2.0, 1.0), (1024.0, 900.0)] };
        let svg = chart(&Chart {
            title: "A & B",
            x_title: "x",
            y_title: "y",
            axes: Axes::Bytes,
            level: None,
            lines: vec![line],
        });
        let svg = svg.unwrap();
        assert!(svg.contains("currentColor") && !svg.contains("#000000"), "{svg}");
        assert!(svg.contains("aria-label=\"A &amp; B\""), "{svg}");
    }
}
