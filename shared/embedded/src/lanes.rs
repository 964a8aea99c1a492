use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use holdfast_core::records::{Key, Record};

use crate::writer::Job;

/// Whose jobs stand in line behind each other: a tenant's, or Holdfast's own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lane(Arc<str>);

impl Lane {
    /// No tenant has an empty name.
    pub(crate) fn own() -> Lane {
        Lane(Arc::default())
    }

    pub(crate) fn of_tenant(tenant: &str) -> Lane {
        Lane(tenant.into())
    }

    /// Records of several tenants are written for Holdfast itself.
    pub(crate) fn of_records(records: &[Record]) -> Lane {
        let mut lanes = records.iter().map(|record| Lane::of_record(&record.key()));
        let first = lanes.next().unwrap_or_else(Lane::own);
        if lanes.all(|lane| lane == first) { first } else { Lane::own() }
    }

    /// A tenant's records have its name in their partition, right after the kind of thing.
    pub(crate) fn of_record(key: &Key) -> Lane {
        Lane(key.partition.split('#').nth(1).unwrap_or_default().into())
    }
}

/// The waiting jobs. Each lane is in order, and the lanes take turns.
#[derive(Default)]
pub(crate) struct Lanes {
    order: VecDeque<Lane>,
    jobs: HashMap<Lane, VecDeque<Box<dyn Job>>>,
}

impl Lanes {
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(crate) fn push(&mut self, lane: Lane, job: Box<dyn Job>) {
        if let Some(jobs) = self.jobs.get_mut(&lane) {
            return jobs.push_back(job);
        }
        self.order.push_back(lane.clone());
        self.jobs.insert(lane, VecDeque::from([job]));
    }

    pub(crate) fn next(&mut self) -> Option<Box<dyn Job>> {
        let lane = self.order.pop_front()?;
        let jobs = self.jobs.get_mut(&lane)?;
        let job = jobs.pop_front();
        if jobs.is_empty() {
            self.jobs.remove(&lane);
        } else {
            self.order.push_back(lane);
        }
        job
    }
}

#[cfg(test)]
mod tests {
    use holdfast_core::ids::UrlId;
    use holdfast_core::records::UrlRecord;
    use rusqlite::Connection;
    use std::sync::mpsc::{Sender, channel};

    use super::*;
    use crate::error::Failure;

    struct Named(&'static str, Sender<&'static str>);

    impl Job for Named {
        fn run(&mut self, _: &Connection) -> rusqlite::Result<()> {
            Ok(())
        }

        fn done(self: Box<Self>, _: Result<(), Failure>) {
            self.1.send(self.0).unwrap();
        }
    }

    #[test]
    fn tenants_take_turns_and_each_is_served_in_order() {
        let (names, served) = channel();
        let mut lanes = Lanes::default();
        for (tenant, name) in [("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1"), ("", "own"), ("b", "b2")] {
            lanes.push(Lane::of_tenant(tenant), Box::new(Named(name, names.clone())));
        }
        while let Some(job) = lanes.next() {
            job.done(Ok(()));
        }
        assert!(lanes.is_empty());
        drop(names);
        assert_eq!(served.iter().collect::<Vec<_>>(), ["a1", "b1", "own", "a2", "b2", "a3"]);
    }

    #[test]
    fn a_record_stands_in_the_lane_of_its_tenant() {
        let url = UrlRecord::key(&"acme".into(), &UrlId::of("https://example.com"));
        assert_eq!(Lane::of_record(&url), Lane::of_tenant("acme"));
        assert_eq!(Lane::of_record(&Key::new("tenants".to_owned(), "acme")), Lane::own());
    }
}
