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

/// What a row of this size costs.
pub(crate) fn row_cost(bytes: usize) -> u64 {
    1 + (bytes / ROW_BYTES) as u64
}

impl Lane {
    /// No tenant has an empty name.
    pub(crate) fn own() -> Lane {
        Lane::of_tenant("")
    }

    pub(crate) fn of_tenant(tenant: &str) -> Lane {
        Lane { tenant: tenant.into(), cost: 1 }
    }

    /// For a job of several rows, or of large ones.
    pub(crate) fn costing(self, cost: u64) -> Lane {
        Lane { cost: cost.max(1), ..self }
    }

    /// Records of several tenants are written for Holdfast itself.
    pub(crate) fn of_records(records: &[Record]) -> Lane {
        let mut lanes = records.iter().map(|record| Lane::of_record(&record.key()));
        let first = lanes.next().unwrap_or_else(Lane::own);
        if lanes.all(|lane| lane == first) { first } else { Lane::own() }
    }

    /// A tenant's records have its name in their partition, right after the kind of thing.
    pub(crate) fn of_record(key: &Key) -> Lane {
        Lane::of_tenant(key.partition.split('#').nth(1).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
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
