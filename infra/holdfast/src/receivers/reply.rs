use std::fmt;

use serde::{Serialize, Serializer};

/// Statuses below 200 are not final, so a response cannot consist of one.
pub(super) const FINAL_STATUSES: std::ops::RangeInclusive<u16> = 200..=599;

/// How a receiver responds. Serialized as a number or as `"hang"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Status(u16),
    /// Keeps the request open until the client disconnects.
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
