//! A panel's plot as a picture of its own: with title and legend, on white, for documents.

use anyhow::Result;
use maud::{html, PreEscaped};

use super::curves::{Kind, Panel};
use super::plots::{css_color, HEIGHT, WIDTH};
use super::report::main_plot;

/// Height of the title, and of a line of the legend.
const LINE: u32 = 22;

/// The picture as SVG; `None` when there are no points.
pub fn svg(panel: &Panel) -> Result<Option<String>> {
    let (caption, plot) = main_plot(panel)?;
    if plot.is_empty() {
        return Ok(None);
    }
    let top = LINE * (panel.curves.len() as u32 + 1) + 8;
    let height = HEIGHT + top;
    let title = format!("{}: {}", panel.group.title, caption.to_lowercase());
    let page = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (WIDTH) " " (height) } width=(WIDTH) height=(height)
            color="#222222" font-family="sans-serif" font-size="15" {
            rect width="100%" height="100%" fill="#ffffff" {}
            text x="14" y=(LINE) font-weight="bold" fill="currentColor" { (title) }
            @for (at, curve) in panel.curves.iter().enumerate() {
                @let y = LINE * (at as u32 + 2) - 5;
                line x1="14" x2="50" y1=(y) y2=(y) stroke=(css_color(at)) stroke-width="3"
                    stroke-dasharray=[(curve.kind != Kind::Model).then_some("7 5")] {}
                text x="60" y=(y + 5) fill="currentColor" { (curve.label) }
            }
            g transform={ "translate(0 " (top) ")" } { (PreEscaped(&plot)) }
        }
    };
    Ok(Some(page.into_string() + "\n"))
}
