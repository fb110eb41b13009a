//! The report: one HTML page with everything in it.

use std::collections::BTreeSet;

use anyhow::Result;
use maud::{html, Markup, PreEscaped, DOCTYPE};

use super::curves::{summaries, Curve, Kind, Panel};
use super::matrix::Axis;
use super::phases;
use super::plan::{Outcome, Plan};
use crate::args::{word, Clock};
use crate::measured::{Figure, Setting};
use crate::plot::{self, bytes_text, css_color, Axes, Chart, Line};

pub fn page(plan: &Plan, outcome: &Outcome) -> Result<String> {
    let panels = outcome.panels.iter().map(panel).collect::<Result<Vec<_>>>()?;
    let phases = phases::section(&outcome.budgets)?;
    let title = format!("Verbena: {}", plan.cards.join(" and "));
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(include_str!("style.css"))) }
            }
            body {
                h1 { (title) }
                p.soft { (how_made(plan)) }
                @if plan.clock == Clock::Wall {
                    p.warning {
                        "Made with the wall clock: these figures say how fast this computer runs the model, not \
                         how fast a card is."
                    }
                }
                @for note in &outcome.notes { p.warning { (note) } }
                nav {
                    @for panel in &outcome.panels { a href={ "#" (panel.group.name) } { (panel.group.title) } }
                    @if !outcome.budgets.is_empty() { a href="#phases" { "Where the time goes" } }
                }
                (summary(&outcome.panels))
                @for panel in &panels { (panel) }
                (phases)
            }
        }
    };
    Ok(page.into_string())
}

fn how_made(plan: &Plan) -> String {
    let tests = match plan.tests.is_empty() {
        true => String::new(),
        false => format!(" --tests {}", plan.tests.join(",")),
    };
    format!(
        "Made by verbena {}: verbena compare --card {}{tests} --set {} --clock {}. Unmodified perftest, \
         client and server on two cards with a cable between them.",
        env!("CARGO_PKG_VERSION"),
        plan.cards.join(","),
        word(&plan.set),
        plan.clock
    )
}

/// The models beside what they are compared with, a line for each pair.
fn summary(panels: &[Panel]) -> Markup {
    let lines = summaries(panels);
    html! {
        @if !lines.is_empty() {
            div.scroll { table id="summary" {
                thead { tr {
                    th { "test" } th.text { "model" } th.text { "compared with" } th { "sizes" } th { "mean ratio" }
                    th { "furthest" } th { "settings" }
                } }
                tbody { @for line in lines { tr {
                    td { a href={ "#" (line.panel.group.name) } { (line.panel.group.title) } }
                    td.text { (line.model.label) }
                    td.text { (line.base.label) }
                    td { (line.count) }
                    td { (format!("{:.3}", line.mean)) }
                    td { (format!("{:.3} at {}", line.worst.value(), bytes_text(line.worst.bytes))) }
                    @let differences = line.model.differences(line.base).len();
                    td.differs[differences > 0] {
                        @if differences > 0 { (differences) " differ" } @else { "alike" }
                    }
                } } }
            } }
            p.soft { "Ratios are model over measurement; the mean is geometric." }
        }
    }
}

/// The chart of the figure that a panel is about.
fn main_chart(panel: &Panel) -> Chart<'static> {
    let caption = match panel.figure() {
        Figure::BwAverage => "Average bandwidth",
        Figure::MsgRate => "Message rate",
        _ => "Typical latency (median)",
    };
    let lines = lines(panel, &|curve| panel.points(curve));
    chart(panel, caption, unit(panel.figure()), None, lines)
}

/// That chart as a picture for documents; `None` when there are no points.
pub fn picture(panel: &Panel) -> Result<Option<String>> {
    let chart = main_chart(panel);
    let title = format!("{}: {}", panel.group.title, chart.title.to_lowercase());
    plot::picture(&[title], &[chart])
}

fn unit(figure: Figure) -> &'static str {
    match figure {
        Figure::BwAverage => "MiB/s",
        Figure::MsgRate => "million messages / s",
        _ => "us",
    }
}

fn lines(panel: &Panel, points: &dyn Fn(&Curve) -> Vec<(f64, f64)>) -> Vec<Line> {
    let line = |(color, curve): (usize, &Curve)| Line {
        name: curve.label.clone(),
        color,
        dashed: curve.kind != Kind::Model,
        points: points(curve),
    };
    panel.curves.iter().enumerate().map(line).collect()
}

fn chart(
    panel: &Panel,
    title: &'static str,
    y_title: &'static str,
    level: Option<f64>,
    lines: Vec<Line>,
) -> Chart<'static> {
    let (x_title, axes) = match panel.group.axis {
        Axis::Size => ("message size", Axes::Bytes),
        Axis::Mtu => ("MTU", Axes::Bytes),
        Axis::Qps => ("QPs", Axes::Numbers),
    };
    Chart { title, x_title, y_title, axes, level, lines }
}

fn panel(panel: &Panel) -> Result<Markup> {
    let main = main_chart(panel);
    let mut plots = vec![(main.title, plot::chart(&main)?)];
    if panel.figure() == Figure::BwAverage && panel.group.axis == Axis::Size {
        let lines = lines(panel, &|curve| curve.points(panel.group.axis, Figure::MsgRate));
        let chart = chart(panel, "Message rate", unit(Figure::MsgRate), None, lines);
        plots.push((chart.title, plot::chart(&chart)?));
    }
    let pairs = panel.pairs();
    let ratios = chart(panel, "Model over measurement", "ratio", Some(1.0), ratio_lines(panel));
    let ratio_plot = plot::chart(&ratios)?;
    Ok(html! {
        section id=(panel.group.name) {
            h2 { (panel.group.title) }
            p.soft { @for (at, command) in commands(panel).iter().enumerate() {
                @if at > 0 { br; }
                code { (command) }
            } }
            ul.legend { @for line in &main.lines {
                li { i.dashed[line.dashed] style={ "border-color:" (css_color(line.color)) } {} (line.name) }
            } }
            @for (model, base) in panel.pairs() {
                @for difference in model.differences(base) {
                    p.warning {
                        "Settings differ: " (difference.setting.title()) " is " (difference.ours) " for "
                        (model.label) ", " (difference.theirs) " for " (base.label) "."
                    }
                }
            }
            div.plots { @for (caption, svg) in &plots { @if !svg.is_empty() {
                figure { figcaption { (caption) } (PreEscaped(svg)) }
            } }
            @if !pairs.is_empty() { figure {
                figcaption { "Model over measurement" }
                (PreEscaped(ratio_plot))
                ul.legend { @for line in &ratios.lines {
                    li { i style={ "border-color:" (css_color(line.color)) } {} (line.name) }
                } }
            } } }
            details { summary { "Figures" } (figures(panel, unit(panel.figure()))) }
            details { summary { "Settings" } (settings(panel)) }
            (raw(panel))
        }
    })
}

/// Ratios have colours of their own, which no curve of the panel has.
const RATIO_COLOR: usize = 8;

/// A line for each pair.
fn ratio_lines(panel: &Panel) -> Vec<Line> {
    let line = |(at, (model, base)): (usize, (&Curve, &Curve))| Line {
        name: format!("{} / {}", model.label, base.label),
        color: RATIO_COLOR + at,
        dashed: false,
        points: panel.ratios(model, base).iter().map(|ratio| (ratio.bytes, ratio.value())).collect(),
    };
    panel.pairs().into_iter().enumerate().map(line).collect()
}

/// Each command once; of the runs that differ in the size alone, the first and the last.
fn commands(panel: &Panel) -> Vec<String> {
    let mut shown = Vec::new();
    for curve in &panel.curves {
        let mut all: Vec<String> = curve.commands.clone();
        if panel.group.axis == Axis::Size && all.len() > 2 {
            all = vec![format!("{} ... {}", all[0], all[all.len() - 1])];
        }
        shown.extend(all);
    }
    let mut seen = BTreeSet::new();
    shown.retain(|command| seen.insert(command.clone()));
    shown
}

fn figures(panel: &Panel, unit: &str) -> Markup {
    let columns: Vec<Vec<(f64, f64)>> = panel.curves.iter().map(|curve| panel.points(curve)).collect();
    let pairs = panel.pairs();
    let ratios: Vec<_> = pairs.iter().map(|(model, base)| panel.ratios(model, base)).collect();
    let mut rows: Vec<f64> = columns.iter().flatten().map(|point| point.0).collect();
    rows.sort_by(f64::total_cmp);
    rows.dedup();
    let value = |points: &[(f64, f64)], x: f64| points.iter().find(|point| point.0 == x).map(|point| point.1);
    html! {
        div.scroll { table {
            thead { tr {
                th { @match panel.group.axis { Axis::Size => "bytes", Axis::Mtu => "MTU", Axis::Qps => "QPs" } }
                @for curve in &panel.curves { th { (curve.label) ", " (unit) } }
                @for (model, base) in &pairs { th { (model.label) " / " (base.label) } }
            } }
            tbody { @for x in rows { tr {
                td { (x) }
                @for points in &columns { td { @if let Some(value) = value(points, x) { (value) } } }
                @for ratios in &ratios {
                    td { @if let Some(ratio) = ratios.iter().find(|ratio| ratio.bytes == x) {
                        (format!("{:.4}", ratio.value()))
                    } }
                }
            } } }
        } }
    }
}

fn settings(panel: &Panel) -> Markup {
    let known: BTreeSet<Setting> = panel
        .curves
        .iter()
        .filter_map(|curve| curve.runs.first())
        .flat_map(|run| run.settings.keys().copied())
        .collect();
    let differs = |curve: &Curve, setting| {
        curve.kind != Kind::Model
            && panel
                .models()
                .any(|model| model.differences(curve).iter().any(|found| found.setting == setting))
    };
    html! {
        div.scroll { table {
            thead { tr { th { "setting" } @for curve in &panel.curves { th { (curve.label) } } } }
            tbody { @for setting in known { tr {
                td { (setting.title()) }
                @for curve in &panel.curves {
                    td.differs[differs(curve, setting)] { (curve.setting(setting).unwrap_or("not said")) }
                }
            } } }
        } }
    }
}

fn raw(panel: &Panel) -> Markup {
    html! {
        details.raw { summary { "What the programs printed" }
            @for curve in &panel.curves { @for (at, run) in curve.runs.iter().enumerate() {
                @let command = curve.commands.get(at).map_or(run.test.as_str(), String::as_str);
                details { summary { (curve.label) ", " code { (command) } } pre { (run.raw) } }
            } }
        }
    }
}
