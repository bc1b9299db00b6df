//! Recall over budget as an SVG: one line per engine.

use crate::report::Report;
use std::fmt::Write;

/// Size of the picture, and of the margins around the plot: left, right, top, bottom.
const SIZE: (f64, f64) = (760.0, 480.0);
const MARGIN: (f64, f64, f64, f64) = (64.0, 150.0, 44.0, 60.0);
/// Colours that people with the common kinds of colour blindness can tell apart (Okabe and Ito, 2008).
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];

/// The picture. `title` says what was measured.
pub fn svg(reports: &[Report], title: &str) -> String {
    let plot = Plot::of(reports);
    let mut out = String::with_capacity(8 * 1024);
    // Writing into a text does not fail.
    let _ = plot.write(&mut out, reports, title);
    out
}

/// The scale of the horizontal axis: logarithmic, since budgets are doubled.
struct Plot {
    /// The budgets, ascending, each once.
    budgets: Vec<u64>,
    engines: Vec<String>,
}

impl Plot {
    fn of(reports: &[Report]) -> Plot {
        let mut budgets: Vec<u64> = reports.iter().map(|report| report.budget.max(1)).collect();
        budgets.sort_unstable();
        budgets.dedup();
        let mut engines: Vec<String> = Vec::new();
        for report in reports.iter().filter(|report| !report.engine.is_empty()) {
            if !engines.contains(&report.engine) {
                engines.push(report.engine.clone());
            }
        }
        Plot { budgets, engines }
    }

    fn x(&self, budget: u64) -> f64 {
        let log = |budget: u64| (budget.max(1) as f64).log2();
        let (first, last) = (self.budgets.first().copied().unwrap_or(1), self.budgets.last().copied().unwrap_or(1));
        let width = SIZE.0 - MARGIN.0 - MARGIN.1;
        match first == last {
            true => MARGIN.0 + width / 2.0,
            false => MARGIN.0 + width * (log(budget) - log(first)) / (log(last) - log(first)),
        }
    }

    fn y(percent: f64) -> f64 {
        SIZE.1 - MARGIN.3 - (SIZE.1 - MARGIN.2 - MARGIN.3) * percent.clamp(0.0, 100.0) / 100.0
    }

    fn write(&self, out: &mut String, reports: &[Report], title: &str) -> std::fmt::Result {
        let (width, height) = SIZE;
        writeln!(
            out,
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13" fill="#222">"##
        )?;
        writeln!(out, r##"<rect width="{width}" height="{height}" fill="#fff"/>"##)?;
        writeln!(out, r#"<text x="{}" y="24" font-size="16">{}</text>"#, MARGIN.0, escape(title))?;
        self.axes(out)?;
        for (number, engine) in self.engines.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let mut points: Vec<&Report> = reports.iter().filter(|report| report.engine == *engine).collect();
            points.sort_by_key(|report| report.budget);
            let line: Vec<String> = points
                .iter()
                .map(|report| format!("{:.1},{:.1}", self.x(report.budget), Plot::y(report.recall)))
                .collect();
            writeln!(out, r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="2"/>"#, line.join(" "))?;
            for report in points {
                let (x, y) = (self.x(report.budget), Plot::y(report.recall));
                writeln!(out, r#"<circle cx="{x:.1}" cy="{y:.1}" r="3.5" fill="{colour}"/>"#)?;
                writeln!(
                    out,
                    r#"<text x="{x:.1}" y="{:.1}" text-anchor="middle" font-size="11" fill="{colour}">{:.1}</text>"#,
                    // Above and below in turn, so that the numbers of two lines that are close can be read.
                    if number % 2 == 0 { y - 8.0 } else { y + 17.0 },
                    report.recall
                )?;
            }
            let (x, y) = (width - MARGIN.1 + 24.0, MARGIN.2 + 10.0 + 22.0 * number as f64);
            writeln!(out, r#"<path d="M{x:.1} {y:.1}h22" stroke="{colour}" stroke-width="3"/>"#)?;
            writeln!(out, r#"<text x="{:.1}" y="{:.1}">{}</text>"#, x + 30.0, y + 4.5, escape(engine))?;
        }
        writeln!(out, "</svg>")
    }

    fn axes(&self, out: &mut String) -> std::fmt::Result {
        let (left, right) = (MARGIN.0, SIZE.0 - MARGIN.1);
        let bottom = Plot::y(0.0);
        for percent in (0..=100).step_by(20) {
            let y = Plot::y(f64::from(percent));
            writeln!(out, r##"<path d="M{left} {y:.1}H{right}" stroke="#ddd"/>"##)?;
            writeln!(out, r#"<text x="{:.1}" y="{:.1}" text-anchor="end">{percent}</text>"#, left - 8.0, y + 4.5)?;
        }
        for budget in &self.budgets {
            let x = self.x(*budget);
            writeln!(out, r##"<path d="M{x:.1} {bottom:.1}v6" stroke="#222"/>"##)?;
            writeln!(out, r#"<text x="{x:.1}" y="{:.1}" text-anchor="middle">{budget}</text>"#, bottom + 22.0)?;
        }
        writeln!(out, r##"<path d="M{left} {}V{bottom:.1}H{right}" fill="none" stroke="#222"/>"##, MARGIN.2)?;
        let middle = f64::midpoint(left, right);
        writeln!(out, r#"<text x="{middle:.1}" y="{:.1}" text-anchor="middle">budget (tokens)</text>"#, SIZE.1 - 14.0)?;
        let middle = f64::midpoint(MARGIN.2, bottom);
        writeln!(
            out,
            r#"<text transform="translate(20 {middle:.1}) rotate(-90)" text-anchor="middle">evidence recall (%)</text>"#
        )
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;

    fn report(engine: &str, budget: u64, recall: f64) -> Report {
        Report { engine: engine.into(), recall, ..Report::new(&Engine::legacy(), budget) }
    }

    #[test]
    fn every_engine_has_a_line_through_its_points_in_the_order_of_the_budgets() {
        let reports = [report("a", 4096, 50.0), report("a", 1024, 0.0), report("b<c", 2048, 100.0)];
        let svg = svg(&reports, "Recall & more");
        let (left, right, top, bottom) = (64.0, 610.0, 44.0, 420.0);
        let (middle, half) = ((left + right) / 2.0, (top + bottom) / 2.0);
        assert!(svg.contains(&format!("<polyline points=\"{left:.1},{bottom:.1} {right:.1},{half:.1}\"")), "{svg}");
        assert!(svg.contains(&format!("<polyline points=\"{middle:.1},{top:.1}\"")), "{svg}");
        for text in
            ["Recall &amp; more", "b&lt;c", "budget (tokens)", "evidence recall (%)", ">1024<", ">2048<", ">4096<"]
        {
            assert!(svg.contains(text), "{text}");
        }
        assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
    }

    #[test]
    fn one_budget_stands_in_the_middle() {
        let svg = svg(&[report("a", 1024, 20.0)], "");
        assert!(svg.contains("points=\"337.0,"), "{svg}");
    }
}
