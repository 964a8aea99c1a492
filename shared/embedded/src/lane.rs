use std::sync::Arc;

use holdfast_core::records::{Key, Record};

/// Rows that are larger cost as much as several.
const ROW_BYTES: usize = 4_096;

/// Whose jobs stand in line behind each other: a tenant's, or Holdfast's own.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Lane {
    pub(crate) tenant: Arc<str>,
    /// How much the job keeps the writing thread busy: about the number of its rows.
    pub(crate) cost: u64,
}

/// How many rows that are independent of each other are one job, and how much they cost, which is about 256 kB: the writes of other tenants
/// come in between.
pub(crate) const ROWS_PER_JOB: usize = 25;
pub(crate) const MAX_JOB_COST: u64 = 64;

/// What a row of this size costs.
pub(crate) fn row_cost(bytes: usize) -> u64 {
    1 + (bytes / ROW_BYTES) as u64
}

/// Rows in the pieces that are jobs, each with its cost. A row that costs more than a job has a piece of its own.
pub(crate) fn in_jobs<T>(rows: impl IntoIterator<Item = T>, cost: impl Fn(&T) -> u64) -> Vec<(Vec<T>, u64)> {
    let mut jobs: Vec<(Vec<T>, u64)> = Vec::new();
    for row in rows {
        let added = cost(&row);
        match jobs.last_mut() {
            Some((job, cost)) if job.len() < ROWS_PER_JOB && *cost + added <= MAX_JOB_COST => {
                job.push(row);
                *cost += added;
            }
            _ => jobs.push((vec![row], added)),
        }
    }
    jobs
}

/// Stands for Holdfast itself among the tenants. None of them has an empty name.
pub(crate) const OWN: &str = "";

impl Lane {
    pub(crate) fn own() -> Lane {
        Lane::of_tenant(OWN)
    }

    pub(crate) fn of_tenant(tenant: &str) -> Lane {
        Lane { tenant: tenant.into(), cost: 1 }
    }

    /// For a job of several rows, or of large ones.
    pub(crate) fn costing(self, cost: u64) -> Lane {
        Lane { cost: cost.max(1), ..self }
    }

    /// Records of several tenants are written for Holdfast itself.
    pub(crate) fn of_records<'a>(records: impl Iterator<Item = &'a Record>) -> Lane {
        let mut lanes = records.map(|record| Lane::of_record(&record.key()));
        let first = lanes.next().unwrap_or_else(Lane::own);
        if lanes.all(|lane| lane == first) { first } else { Lane::own() }
    }

    /// A tenant's records have its name in their partition, right after the kind of thing.
    pub(crate) fn of_record(key: &Key) -> Lane {
        Lane::of_partition(&key.partition)
    }

    /// The same for a partition of the records or of a list.
    pub(crate) fn of_partition(partition: &str) -> Lane {
        Lane::of_tenant(tenant_of(partition))
    }
}

/// Whose records have this partition.
pub(crate) fn tenant_of(partition: &str) -> &str {
    partition.split('#').nth(1).unwrap_or(OWN)
}

#[cfg(test)]
mod tests {
    #[test]
    fn rows_are_split_by_their_number_and_their_cost() {
        let split = |costs: &[u64]| -> Vec<(usize, u64)> {
            let jobs = super::in_jobs(costs.iter().copied(), |cost| *cost);
            jobs.into_iter().map(|(rows, cost)| (rows.len(), cost)).collect()
        };
        assert_eq!(split(&[]), []);
        assert_eq!(split(&[1; 60]), [(25, 25), (25, 25), (10, 10)]);
        assert_eq!(split(&[32; 5]), [(2, 64), (2, 64), (1, 32)]);
        assert_eq!(split(&[1, 245, 1, 1]), [(1, 1), (1, 245), (2, 2)]);
    }

    use holdfast_core::ids::UrlId;
    use holdfast_core::records::UrlRecord;

    use super::*;

    #[test]
    fn a_record_stands_in_the_lane_of_its_tenant() {
        let url = UrlRecord::key(&"acme".into(), &UrlId::of("https://example.com"));
        assert_eq!(Lane::of_record(&url), Lane::of_tenant("acme"));
        assert_eq!(Lane::of_record(&Key::new("tenants".to_owned(), "acme")), Lane::own());
    }
}
