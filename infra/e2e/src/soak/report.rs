//! What came of a run.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use super::ledger::Answer;
use super::shown::Shown;
use super::trouble::{Interruption, Kind};
use super::world::World;

#[derive(Clone, Debug)]
pub struct Report {
    pub seed: u64,
    /// What is counted, in the order in which it is printed.
    rows: Vec<(String, String)>,
    /// Empty if every promise held.
    pub faults: Vec<String>,
    /// For the caller to see that the run proves anything.
    pub accepted: usize,
    pub interruptions: usize,
}

impl Report {
    pub(super) fn of(world: &World, shown: &Shown) -> Report {
        let mut rows = Vec::new();
        let mut add = |what: &str, value: String| rows.push((what.to_owned(), value));
        add("seconds in all", world.started.elapsed().as_secs().to_string());
        let posted = world.ledger.posted();
        let with = |wanted: fn(&Answer) -> bool| posted.values().filter(|one| wanted(&one.answer)).count();
        let accepted = with(|answer| matches!(answer, Answer::Accepted { .. }));
        add("events posted", posted.len().to_string());
        add("… accepted", accepted.to_string());
        add("… refused", with(|answer| *answer == Answer::Refused).to_string());
        add("… without an answer", with(|answer| *answer == Answer::Unknown).to_string());
        add("… with a given id", posted.values().filter(|one| one.given_id.is_some()).count().to_string());
        let interruptions = world.interruptions();
        for (what, kind) in [
            ("kills", Kind::Kill),
            ("orderly ends", Kind::Terminate),
            ("stops", Kind::Stop),
            ("full disks", Kind::FullDisk),
        ] {
            let of_kind: Vec<&Interruption> = interruptions.iter().filter(|one| one.kind == kind).collect();
            let seconds = of_kind.iter().map(|one| one.to - one.from).sum::<Duration>().as_secs_f64();
            add(what, format!("{} ({seconds:.1} s)", of_kind.len()));
        }
        for (outcome, count) in world.receivers.outcomes() {
            add(&format!("requests: {outcome}"), count.to_string());
        }
        for (what, count) in world.counts() {
            add(what, count.to_string());
        }
        add("deliveries shown", shown.deliveries.len().to_string());
        add("attempts that the server did not count", world.not_counted().to_string());
        let (seed, faults) = (world.plan.seed, world.faults());
        Report { seed, rows, faults, accepted, interruptions: interruptions.len() }
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}", self.seed)?;
        for (what, value) in &self.rows {
            writeln!(f, "{what:<52} {value:>16}")?;
        }
        match self.faults.as_slice() {
            [] => writeln!(f, "Everything that was promised held."),
            faults => faults.iter().try_for_each(|fault| writeln!(f, "NOT AS PROMISED: {fault}")),
        }
    }
}
