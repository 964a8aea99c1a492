//! Adds up capacity units by the partition key that they are taken from.

use std::collections::HashMap;

/// The table, or one of its indexes by name.
pub(crate) const TABLE: &str = "table";

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Units {
    pub(crate) read: f64,
    pub(crate) write: f64,
}

/// Units by second, by table or index, and by partition key.
#[derive(Default)]
pub(crate) struct Meter {
    by_key: HashMap<(i64, &'static str, String), Units>,
}

impl Meter {
    pub(crate) fn read(&mut self, second: i64, place: &'static str, key: &str, units: f64) {
        self.of(second, place, key).read += units;
    }

    pub(crate) fn write(&mut self, second: i64, place: &'static str, key: &str, units: f64) {
        self.of(second, place, key).write += units;
    }

    fn of(&mut self, second: i64, place: &'static str, key: &str) -> &mut Units {
        self.by_key.entry((second, place, key.to_owned())).or_default()
    }

    /// What each key gave in its busiest second.
    pub(crate) fn busiest_seconds(&self) -> HashMap<(&'static str, &str), Units> {
        let mut busiest: HashMap<(&'static str, &str), Units> = HashMap::new();
        for ((_, place, key), units) in &self.by_key {
            let busy = busiest.entry((place, key)).or_default();
            busy.read = busy.read.max(units.read);
            busy.write = busy.write.max(units.write);
        }
        busiest
    }

    /// What each key gave in all.
    pub(crate) fn totals(&self) -> HashMap<(&'static str, &str), Units> {
        let mut totals: HashMap<(&'static str, &str), Units> = HashMap::new();
        for ((_, place, key), units) in &self.by_key {
            let total = totals.entry((place, key)).or_default();
            total.read += units.read;
            total.write += units.write;
        }
        totals
    }
}
