//! The part of the report that says where the time of a message goes.

use std::collections::BTreeSet;

use anyhow::Result;
use maud::{html, Markup, PreEscaped};

use super::budgets::{CardBudget, TESTS};
use crate::plot::{bars, bytes_text, css_color, Bar};
use crate::trace::budget::{part_name, ORDER};

/// A plot and a table for each verb.
pub fn section(budgets: &[CardBudget]) -> Result<Markup> {
    if budgets.is_empty() {
        return Ok(html! {});
    }
    let mut verbs = Vec::new();
    for (test, verb) in TESTS {
        let mine: Vec<&CardBudget> = budgets.iter().filter(|budget| budget.verb == verb).collect();
        if !mine.is_empty() {
            verbs.push((verb, test, plot(verb, &mine)?, table(&mine)));
        }
    }
    let all: Vec<&CardBudget> = budgets.iter().collect();
    Ok(html! {
        section id="phases" {
            h2 { "Where the time goes" }
            p {
                "The phases of one message on its way, averaged; they add up to the latency that perftest \
                 reports: half the round trip of WRITE and SEND, the whole one of READ. " code { "program" }
                " is what the program takes from seeing a message to posting its next."
            }
            ul.legend { @for part in used(&all) {
                li { i.block style={ "background:" (css_color(color(part))) } {} (part_name(part)) }
            } }
            @for (verb, test, svg, table) in &verbs {
                figure { figcaption { (verb) " (" (test) ")" } (PreEscaped(svg)) }
                details { summary { "Figures" } (table) }
            }
        }
    })
}

/// The parts that take any time, in their order.
fn used(budgets: &[&CardBudget]) -> Vec<usize> {
    let used: BTreeSet<usize> = budgets
        .iter()
        .flat_map(|budget| ORDER.into_iter().filter(|part| budget.latency.budget.parts[*part].max > 0))
        .collect();
    ORDER.into_iter().filter(|part| used.contains(part)).collect()
}

/// A colour that is a part's own: neighbours in [`ORDER`] differ.
fn color(part: usize) -> usize {
    ORDER.iter().position(|other| *other == part).unwrap_or(0)
}

fn plot(verb: &str, budgets: &[&CardBudget]) -> Result<String> {
    let bar = |budget: &&CardBudget| {
        let all = &budget.latency.budget;
        let part = |part: usize| (color(part), all.mean_ns(all.parts[part]));
        Bar {
            label: format!("{}, {}", budget.card, bytes_text(f64::from(budget.bytes))),
            parts: used(budgets).into_iter().map(part).collect(),
        }
    };
    let title = format!("Phases of a {verb} message");
    bars(&title, "ns", &budgets.iter().map(bar).collect::<Vec<_>>())
}

fn table(budgets: &[&CardBudget]) -> Markup {
    html! {
        div.scroll { table {
            thead { tr {
                th { "phase, ns" }
                @for budget in budgets { th { (budget.card) ", " (bytes_text(f64::from(budget.bytes))) } }
            } }
            tbody {
                @for part in used(budgets) { tr {
                    td { (part_name(part)) }
                    @for budget in budgets {
                        @let all = &budget.latency.budget;
                        td { (format!("{:.1}", all.mean_ns(all.parts[part]))) }
                    }
                } }
                tr {
                    td { b { "total" } }
                    @for budget in budgets {
                        @let all = &budget.latency.budget;
                        td { b { (format!("{:.1}", all.mean_ns(all.total))) } }
                    }
                }
            }
        } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::budget::{Budget, Latency, Stat, PARTS};

    fn budget(card: &str, verb: &'static str, bytes: u32) -> CardBudget {
        let mut parts = [Stat::default(); PARTS];
        for (part, stat) in parts.iter_mut().enumerate() {
            let took = 10_000 * (part as u64 + 1) * (1 + u64::from(bytes) / 1000);
            *stat = Stat { sum: 2 * took, min: took, max: took };
        }
        let total = parts.iter().map(|stat| stat.sum).sum();
        let total = Stat { sum: total, min: total / 2, max: total / 2 };
        let latency = Latency { budget: Budget { count: 2, parts, total }, typical: 0.0, average: 0.0 };
        CardBudget { card: card.to_owned(), verb, bytes, latency }
    }

    #[test]
    fn every_part_has_a_bar_a_name_and_a_colour_of_its_own() {
        let budgets = [budget("f10a", "WRITE", 8), budget("cx4lx", "WRITE", 4096), budget("f10a", "READ", 8)];
        let page = section(&budgets).unwrap().into_string();
        assert!(page.contains("Phases of a WRITE message") && page.contains("Phases of a READ message"));
        assert!(!page.contains("SEND ("), "no budget of SEND was given");
        let colors: BTreeSet<String> = ORDER.into_iter().map(|part| css_color(color(part))).collect();
        assert_eq!(colors.len(), PARTS);
        for part in ORDER {
            assert!(page.contains(&format!(">{}</td>", part_name(part))), "{}", part_name(part));
            // Once in the legend, and in each of three bars.
            let color = css_color(color(part));
            assert_eq!(page.matches(&format!("background:{color}")).count(), 1);
            assert_eq!(page.matches(&format!("fill=\"{color}\"")).count(), 3, "{}", part_name(part));
        }
        // 10 + 20 + ... + 150 ns.
        assert!(page.contains("<b>1200.0</b>"), "{page}");
    }
}
