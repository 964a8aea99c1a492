//! What was done in a run, and whether that is what the run was for.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// The most links that a chain of messages may have: each was sent while another was handled.
pub const MAX_LINKS: u64 = 1_000;
/// How many of the refused requests are shown.
const MAX_SHOWN: usize = 20;

#[derive(Debug, Default)]
pub struct Report {
    calls: u64,
    /// How often each kind of fault happened.
    counts: BTreeMap<&'static str, u64>,
    /// What a run without these kinds would not test.
    expected: BTreeSet<&'static str>,
    /// Requests that AWS would refuse: the function and why.
    refused: Vec<String>,
    /// What each function needs permission for: actions with their resources.
    actions: BTreeMap<String, BTreeSet<(String, String)>>,
    max_links: u64,
}

impl Report {
    #[must_use]
    pub fn new(expected: impl IntoIterator<Item = &'static str>) -> Report {
        Report { expected: expected.into_iter().collect(), ..Report::default() }
    }

    pub fn call(&mut self, function: &str, actions: Vec<(String, String)>) {
        self.calls += 1;
        let known = self.actions.entry(function.to_owned()).or_default();
        known.extend(actions);
    }

    pub fn count(&mut self, kind: &'static str) {
        *self.counts.entry(kind).or_default() += 1;
    }

    pub fn refuse(&mut self, why: String) {
        self.refused.push(why);
    }

    pub fn links(&mut self, links: u64) {
        self.max_links = self.max_links.max(links);
    }

    /// Why the run is no success. Empty if it is one.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut problems: Vec<String> =
            self.refused.iter().take(MAX_SHOWN).map(|why| format!("AWS would refuse: {why}")).collect();
        let missing = self.expected.iter().filter(|kind| !self.counts.contains_key(*kind));
        problems.extend(missing.map(|kind| format!("this never happened, and should have: {kind}")));
        if self.max_links > MAX_LINKS {
            problems.push(format!("a chain of messages had {} links", self.max_links));
        }
        if self.calls == 0 {
            problems.push("no function has called AWS through this proxy".to_owned());
        }
        problems
    }

    /// One line for each kind.
    #[must_use]
    pub fn summary(&self) -> String {
        let counts = self.counts.iter().map(|(kind, count)| format!("{count:>8}  {kind}\n"));
        format!(
            "{:>8}  calls of {} functions\n{}{:>8}  refused\n{:>8}  links in the longest chain\n",
            self.calls,
            self.actions.len(),
            counts.collect::<String>(),
            self.refused.len(),
            self.max_links
        )
    }

    /// `{"function": [["action", "resource"]]}`
    #[must_use]
    pub fn actions(&self) -> Value {
        json!(self.actions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_must_have_done_what_it_was_for() {
        let mut report = Report::new(["lost"]);
        assert_eq!(report.problems().len(), 2, "{:?}", report.problems());
        report.call("ingest", vec![("sqs:SendMessage".to_owned(), "q".to_owned())]);
        report.count("lost");
        report.links(MAX_LINKS);
        assert_eq!(report.problems(), Vec::<String>::new());
        assert_eq!(report.actions(), json!({ "ingest": [["sqs:SendMessage", "q"]] }));
        report.links(MAX_LINKS + 1);
        report.refuse("x".to_owned());
        assert_eq!(report.problems().len(), 2);
    }
}
