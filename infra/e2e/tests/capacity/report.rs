//! What the busiest keys of a workload need, and the table of it in `infra/docs/capacity.md`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use holdfast_e2e::strict_aws::units::{READ_UNITS_PER_PARTITION, WRITE_UNITS_PER_PARTITION};

use crate::meter::{Meter, TABLE, Units};

/// How the run of a sample becomes units per second.
#[derive(Clone, Copy)]
pub(crate) enum Scale {
    /// The whole run is what happens in this many seconds.
    Seconds(f64),
    /// The busiest second of the run, this many times.
    Times(f64),
}

pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) scale: Scale,
    pub(crate) meter: Meter,
    /// Which kinds of keys the page shows; all of them are checked.
    pub(crate) shown: &'static [&'static str],
}

/// Kinds of partitions that the store spreads over several keys, `partition#shard`, and that get new items all the time. Of those that
/// do not (keys, subscriptions), the busiest key of the sample is the one at full load too.
const SPREAD: [&str; 4] = ["attempts", "deliveries", "minutes", "parked"];
/// How much more than the average one of several keys gets by chance at full load.
const MAX_SKEW: f64 = 1.1;
/// How much more it may get in a sample, in which chance matters more; only where the average is at least this many units.
const MAX_SAMPLE_SKEW: (f64, f64) = (3.0, 10.0);

/// The keys over which one thing is spread, or one key.
#[derive(Default)]
struct Group {
    keys: f64,
    sum: Units,
    most: Units,
}

impl Group {
    fn add(&mut self, units: Units) {
        self.keys += 1.0;
        self.sum = Units { read: self.sum.read + units.read, write: self.sum.write + units.write };
        self.most = Units { read: self.most.read.max(units.read), write: self.most.write.max(units.write) };
    }

    /// What the busiest of its keys gets. A sample that stands for more than itself has so few units for each of many keys that its
    /// own busiest one says more about chance than about the load: so it follows from the average.
    fn busiest(&self, factor: f64) -> Units {
        if factor <= 1.0 {
            return self.most;
        }
        let skew = if self.keys > 1.0 { MAX_SKEW } else { 1.0 };
        let of = |sum: f64, most: f64| {
            let average = sum / self.keys;
            let (times, enough) = MAX_SAMPLE_SKEW;
            assert!(average < enough || most <= average * times, "{most} of one key, {average} on average");
            (average * skew).min(most)
        };
        Units { read: of(self.sum.read, self.most.read), write: of(self.sum.write, self.most.write) }
    }
}

/// Kind and group of a key.
fn group_of<'a>(place: &'static str, key: &'a str) -> (&'a str, &'a str) {
    let unsharded = key.rsplit_once('#').map_or(key, |(group, _)| group);
    match place {
        TABLE => {
            let kind = key.split('#').next().unwrap_or_default();
            (kind, if SPREAD.contains(&kind) { unsharded } else { key })
        }
        "sweep" => ("sweep", "sweep"),
        index => (index, unsharded),
    }
}

/// The busiest key of each kind: of the table by what it holds, of an index by the index. Reads and writes may be of two keys.
fn busiest(workload: &Workload) -> BTreeMap<&str, Units> {
    let (units, factor) = match workload.scale {
        Scale::Seconds(seconds) => (workload.meter.totals(), 1.0 / seconds),
        Scale::Times(times) => (workload.meter.busiest_seconds(), times),
    };
    let mut groups: BTreeMap<(&str, &str), Group> = BTreeMap::new();
    for ((place, key), units) in units {
        groups.entry(group_of(place, key)).or_default().add(units);
    }
    let mut kinds: BTreeMap<&str, Units> = BTreeMap::new();
    for ((kind, _), group) in groups {
        let (most, units) = (kinds.entry(kind).or_default(), group.busiest(factor));
        most.read = most.read.max(units.read * factor);
        most.write = most.write.max(units.write * factor);
    }
    kinds
}

/// One line of the table.
#[derive(Debug, PartialEq)]
pub(crate) struct Line {
    workload: String,
    kind: String,
    write: f64,
    read: f64,
}

impl Line {
    pub(crate) fn markdown(&self) -> String {
        let Line { workload, kind, write, read } = self;
        format!("| {workload} | `{kind}` | {} | {} |", figure(*write), figure(*read))
    }

    /// The lines of the table in a page.
    pub(crate) fn all_in(page: &str) -> Vec<Line> {
        let cells = |line: &str| -> Option<Line> {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [workload, kind, write, read] = cells[..] else { return None };
            let number = |text: &str| text.replace(',', "").parse().ok();
            let kind = kind.strip_prefix('`')?.strip_suffix('`')?.to_owned();
            Some(Line { workload: workload.to_owned(), kind, write: number(write)?, read: number(read)? })
        };
        page.lines().filter(|line| line.starts_with('|')).filter_map(cells).collect()
    }

    /// Small changes of an item's size move a figure a little: the page follows when it moves by more.
    pub(crate) fn is_about(&self, other: &Line) -> bool {
        let about = |a: f64, b: f64| (a - b).abs() <= 10.0_f64.max(0.1 * a.max(b));
        (&self.workload, &self.kind) == (&other.workload, &other.kind)
            && about(self.write, other.write)
            && about(self.read, other.read)
    }
}

/// With thousands separated.
fn figure(number: f64) -> String {
    let number = number.round() as u64;
    if number < 1_000 { number.to_string() } else { format!("{},{:03}", number / 1_000, number % 1_000) }
}

/// The lines of a workload, and what exceeds a limit.
pub(crate) fn report(workload: &Workload) -> (Vec<Line>, Vec<String>) {
    let kinds = busiest(workload);
    let mut lines = Vec::new();
    for kind in workload.shown {
        let Units { read, write } = kinds.get(kind).copied().unwrap_or_default();
        lines.push(Line { workload: workload.name.to_owned(), kind: (*kind).to_owned(), write, read });
    }
    let exceeds =
        |units: &Units| units.write > WRITE_UNITS_PER_PARTITION || units.read > READ_UNITS_PER_PARTITION;
    let over = kinds.iter().filter(|(_, units)| exceeds(units)).map(|(kind, units)| {
        format!("{}: {kind} writes {:.0}, reads {:.0} a second", workload.name, units.write, units.read)
    });
    (lines, over.collect())
}

/// Everything that a workload needs.
pub(crate) fn details(workload: &Workload) -> String {
    let mut text = format!("{}\n", workload.name);
    for (kind, units) in busiest(workload) {
        let _ = writeln!(text, "    {kind:<20} write {:>8.1}  read {:>8.1}", units.write, units.read);
    }
    text
}
