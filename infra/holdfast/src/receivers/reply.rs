use std::fmt;

use serde::{Serialize, Serializer};

/// The statuses that end an exchange. Those below 200 announce another one, so no server can answer with them alone.
pub(super) const FINAL_STATUSES: std::ops::RangeInclusive<u16> = 200..=599;

/// What a receiver answers. Shown as a number or as `"hang"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Status(u16),
    /// Holds the request until the client goes.
    Hang,
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reply::Status(status) => status.fmt(f),
            Reply::Hang => f.write_str("hang"),
        }
    }
}

impl Serialize for Reply {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Reply::Status(status) => serializer.serialize_u16(*status),
            Reply::Hang => serializer.serialize_str("hang"),
        }
    }
}
