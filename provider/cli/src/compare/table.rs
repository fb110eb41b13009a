//! The results as CSV files: all figures, and the ratios to published and added ones.

use std::fmt::Write;

use super::curves::{summaries, Panel};
use crate::measured::Figure;
use crate::plot::bytes_text;

/// A line for each row of each run.
pub fn results(panels: &[Panel]) -> String {
    let mut text = String::from("group,source,kind,command,bytes");
    for figure in Figure::all() {
        let _ = write!(text, ",{figure}");
    }
    text.push('\n');
    for panel in panels {
        for curve in &panel.curves {
            for (at, run) in curve.runs.iter().enumerate() {
                let command = curve.commands.get(at).map_or(run.test.as_str(), String::as_str);
                for row in &run.rows {
                    let start =
                        [panel.group.name, &curve.label, curve.kind.title(), command].map(field).join(",");
                    let _ = write!(text, "{start},{}", row.bytes);
                    for figure in Figure::all() {
                        let value = row.figures.get(&figure).map_or(String::new(), f64::to_string);
                        let _ = write!(text, ",{value}");
                    }
                    text.push('\n');
                }
            }
        }
    }
    text
}

/// A line for each size that a model and a base have in common.
pub fn ratios(panels: &[Panel]) -> String {
    let mut text = String::from("group,figure,model,base,bytes,model_value,base_value,ratio\n");
    for panel in panels {
        for (model, base) in panel.pairs() {
            for ratio in panel.ratios(model, base) {
                let start =
                    [panel.group.name, panel.figure().name(), &model.label, &base.label].map(field).join(",");
                let _ = writeln!(
                    text,
                    "{start},{},{},{},{:.6}",
                    ratio.bytes,
                    ratio.model,
                    ratio.base,
                    ratio.value()
                );
            }
        }
    }
    text
}

/// How near the models come to what they are compared with, for the terminal; empty without any.
pub fn summary(panels: &[Panel]) -> String {
    let lines = summaries(panels);
    let mut text = String::new();
    if lines.is_empty() {
        return text;
    }
    let wide = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0).max(13);
    let model = wide(&mut lines.iter().map(|line| line.model.label.len()));
    let base = wide(&mut lines.iter().map(|line| line.base.label.len()));
    let _ = writeln!(
        text,
        "{:10} {:model$}  {:base$}  sizes  mean ratio  furthest from 1",
        "test", "model", "compared with"
    );
    for line in &lines {
        let _ = writeln!(
            text,
            "{:10} {:model$}  {:base$}  {:5}  {:10.4}  {:.4} at {}",
            line.panel.group.name,
            line.model.label,
            line.base.label,
            line.count,
            line.mean,
            line.worst.value(),
            bytes_text(line.worst.bytes)
        );
    }
    let fits = lines.iter().filter(|line| line.base.card.is_none() || line.base.card == line.model.card);
    let mut left_out: Vec<String> = fits
        .flat_map(|line| {
            line.base.runs.iter().filter_map(|run| not_fitted(&run.raw)).map(move |rows| (line, rows))
        })
        .map(|(line, rows)| format!("{} was not fitted to, of {}: {rows}", line.model.label, line.base.label))
        .collect();
    left_out.dedup();
    for line in left_out {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// What a published file says of the rows that its card's profile was not fitted to.
fn not_fitted(file: &str) -> Option<&str> {
    file.lines().find_map(|line| line.strip_prefix("# Not fitted: "))
}

/// Quoted where it must be (RFC 4180).
fn field(text: &str) -> String {
    match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_needed() {
        assert_eq!(field("a b"), "a b");
        assert_eq!(field("a, \"b\""), "\"a, \"\"b\"\"\"");
    }
}
