//! Reports as tables for a terminal.

use crate::report::Report;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

/// The tables: recall, what the prompts are made of, and the time of each hook.
pub fn tables(reports: &[Report]) -> String {
    format!("{}\n\n{}\n\n{}\n", recall(reports), prompts(reports), hooks(reports))
}

fn recall(reports: &[Report]) -> Table {
    let mut categories: Vec<&str> =
        reports.iter().flat_map(|report| report.categories.keys().map(String::as_str)).collect();
    categories.sort_unstable();
    categories.dedup();
    let mut head = vec!["engine".to_owned(), "budget".to_owned(), "recall %".to_owned(), "strict %".to_owned()];
    head.extend(categories.iter().map(|name| format!("{name} %")));
    head.push("questions".to_owned());
    let rows = reports.iter().map(|report| {
        let mut row = vec![report.engine.clone(), report.budget.to_string(), one(report.recall), one(report.strict)];
        row.extend(
            categories.iter().map(|name| report.categories.get(*name).map_or("-".into(), |each| one(each.recall))),
        );
        row.push(report.questions.to_string());
        row
    });
    table(&head, rows)
}

fn prompts(reports: &[Report]) -> Table {
    let head = [
        "engine",
        "budget",
        "tokens mean",
        "max",
        "over budget",
        "tail mean",
        "share %",
        "min %",
        "volatile mean",
        "prefix median %",
        "mean %",
        "p10 %",
        "degraded",
    ];
    let rows = reports.iter().map(|report| {
        vec![
            report.engine.clone(),
            report.budget.to_string(),
            whole(report.tokens.mean),
            whole(report.tokens.max),
            report.over_budget.to_string(),
            whole(report.tail.mean_tokens),
            one(report.tail.mean_share),
            one(report.tail.min_share),
            whole(report.volatile.mean),
            one(report.prefix.median),
            one(report.prefix.mean),
            one(report.prefix.p10),
            (report.degraded.questions + report.degraded.turns).to_string(),
        ]
    });
    table(&head.map(str::to_owned), rows)
}

fn hooks(reports: &[Report]) -> Table {
    let head = ["engine", "budget", "hook", "calls", "failures", "p50 µs", "p99 µs", "mean µs", "max µs"];
    let rows = reports.iter().flat_map(|report| {
        report.hooks.iter().map(|(hook, times)| {
            vec![
                report.engine.clone(),
                report.budget.to_string(),
                hook.clone(),
                times.count.to_string(),
                times.failures.to_string(),
                one(times.p50_us),
                one(times.p99_us),
                one(times.mean_us),
                one(times.max_us),
            ]
        })
    });
    table(&head.map(str::to_owned), rows)
}

fn table(head: &[String], rows: impl Iterator<Item = Vec<String>>) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_HORIZONTAL_ONLY)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(head);
    for row in rows {
        table.add_row(row.into_iter().enumerate().map(|(at, text)| {
            let is_name = at == 0 || head[at] == "hook";
            Cell::new(text).set_alignment(if is_name { CellAlignment::Left } else { CellAlignment::Right })
        }));
    }
    table
}

fn one(number: f64) -> String {
    format!("{number:.1}")
}

fn whole(number: f64) -> String {
    format!("{number:.0}")
}
