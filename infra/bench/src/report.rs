//! What was measured, as a table for people and JSON for programs.

use std::fmt::Write;

use serde::Serialize;

use crate::measure::median;

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Target {
    AtLeast(f64),
    AtMost(f64),
}

impl Target {
    fn is_met(self, value: f64) -> bool {
        match self {
            Target::AtLeast(least) => value >= least,
            Target::AtMost(most) => value <= most,
        }
    }

    fn describe(self) -> String {
        match self {
            Target::AtLeast(least) => format!("≥ {least}"),
            Target::AtMost(most) => format!("≤ {most}"),
        }
    }
}

/// One figure of one round.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) value: f64,
    pub(crate) target: Option<Target>,
    /// Whether the run fails if the target is missed.
    pub(crate) must_meet: bool,
}

impl Figure {
    pub(crate) fn new(name: impl Into<String>, value: f64, unit: &'static str) -> Figure {
        Figure { name: name.into(), unit, value, target: None, must_meet: false }
    }

    /// Compared with something else in the same round, so that it does not depend on the machine.
    pub(crate) fn ratio(name: impl Into<String>, value: f64) -> Figure {
        Figure::new(name, value, "×")
    }

    pub(crate) fn target(self, target: Target) -> Figure {
        Figure { target: Some(target), ..self }
    }

    /// For what does not depend on how busy the machine is.
    pub(crate) fn must_meet(self, target: Target) -> Figure {
        Figure { must_meet: true, ..self.target(target) }
    }
}

#[derive(Serialize)]
struct Row {
    scenario: &'static str,
    name: String,
    unit: &'static str,
    median: f64,
    rounds: Vec<f64>,
    target: Option<Target>,
    met: Option<bool>,
    must_meet: bool,
}

#[derive(Default)]
pub(crate) struct Report(Vec<Row>);

impl Report {
    pub(crate) fn add(&mut self, scenario: &'static str, figures: Vec<Figure>) {
        for Figure { name, unit, value, target, must_meet } in figures {
            let known = self.0.iter_mut().find(|row| row.scenario == scenario && row.name == name);
            match known {
                Some(row) => row.rounds.push(value),
                None => self.0.push(Row {
                    scenario,
                    name,
                    unit,
                    median: 0.0,
                    rounds: vec![value],
                    target,
                    met: None,
                    must_meet,
                }),
            }
        }
    }

    /// With the medians of all rounds.
    pub(crate) fn finish(mut self) -> Report {
        for row in &mut self.0 {
            row.median = median(&row.rounds);
            row.met = row.target.map(|target| target.is_met(row.median));
        }
        // Within a scenario, what does not depend on the machine comes first.
        self.0.sort_by_key(|row| (row.scenario, row.unit != "×"));
        self
    }

    /// What was missed and must not be.
    pub(crate) fn failures(&self) -> Vec<String> {
        let failed = self.0.iter().filter(|row| row.must_meet && row.met == Some(false));
        failed.map(|row| format!("{}: {}", row.scenario, row.name)).collect()
    }

    pub(crate) fn table(&self) -> String {
        let mut table = String::from("| scenario | figure | median | target | |\n|---|---|---|---|---|\n");
        for row in &self.0 {
            let target = row.target.map(Target::describe).unwrap_or_default();
            let met = row.met.map(|met| if met { "met" } else { "**missed**" }).unwrap_or_default();
            // Writing to a string cannot fail.
            let _ = writeln!(
                table,
                "| {} | {} | {} {} | {target} | {met} |",
                row.scenario,
                row.name,
                digits(row.median),
                row.unit
            );
        }
        table
    }

    pub(crate) fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(&self.0)
    }
}

/// Three that matter.
fn digits(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0..100.0 => format!("{value:.1}"),
        1.0..10.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_compared_with_the_target_and_ratios_come_first() {
        let mut report = Report::default();
        for value in [3.0, 1.0, 2.0] {
            let ratio = Figure::ratio("of the relay", value / 10.0).target(Target::AtLeast(0.25));
            report.add("a", vec![Figure::new("events", value * 1_000.0, "/s"), ratio]);
        }
        let table = report.finish().table();
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(
            rows,
            ["| a | of the relay | 0.200 × | ≥ 0.25 | **missed** |", "| a | events | 2000 /s |  |  |"]
        );
    }
}
