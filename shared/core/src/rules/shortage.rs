//! What we ourselves may run out of. An attempt that could not be made for want of it says nothing about the receiver.

use std::time::Duration;

/// A resource of ours that an attempt needed and did not get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Shortage {
    #[error("no file descriptor is free")]
    Files,
    #[error("no local port is free")]
    Ports,
    #[error("the system has no memory left for another connection")]
    Memory,
    #[error("the resolver is busy with other names")]
    Resolver,
    #[error("the process was too busy to see the response in time")]
    Time,
    #[error("our own network seems to be down")]
    Network,
}

/// A process that notices the end of an attempt late by more than this part of the attempt's time was too busy.
const MAX_LATE_PART: u32 = 10;

// The numbers of Linux.
const ENOMEM: i32 = 12;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
const EADDRNOTAVAIL: i32 = 99;
const ENOBUFS: i32 = 105;

impl Shortage {
    pub const ALL: [Shortage; 6] = [
        Shortage::Files,
        Shortage::Ports,
        Shortage::Memory,
        Shortage::Resolver,
        Shortage::Time,
        Shortage::Network,
    ];

    /// What an error of the operating system, while an attempt was being made, says that we ran out of. `None`: it is about the
    /// receiver or the way to it.
    #[must_use]
    pub fn of_os_error(number: i32) -> Option<Shortage> {
        match number {
            EMFILE | ENFILE => Some(Shortage::Files),
            EADDRNOTAVAIL => Some(Shortage::Ports),
            ENOMEM | ENOBUFS => Some(Shortage::Memory),
            _ => None,
        }
    }

    /// What is short if an attempt that may take `timeout` was seen to have no response only `late` after that, or had so much less because
    /// it waited for its turn. `None`: the receiver took too long. A process that is late by much may not have seen a response that
    /// came in time.
    #[must_use]
    pub fn of_late_timeout(late: Duration, timeout: Duration) -> Option<Shortage> {
        (late > timeout / MAX_LATE_PART).then_some(Shortage::Time)
    }

    /// In one word, for metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Shortage::Files => "files",
            Shortage::Ports => "ports",
            Shortage::Memory => "memory",
            Shortage::Resolver => "resolver",
            Shortage::Time => "time",
            Shortage::Network => "network",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_we_ran_out_of_is_a_shortage() {
        let cases = [
            ("ENOMEM", 12, Some(Shortage::Memory)),
            ("ENFILE", 23, Some(Shortage::Files)),
            ("EMFILE", 24, Some(Shortage::Files)),
            ("EADDRNOTAVAIL", 99, Some(Shortage::Ports)),
            ("ENOBUFS", 105, Some(Shortage::Memory)),
            ("EPIPE", 32, None),
            ("ENETUNREACH", 101, None),
            ("ECONNRESET", 104, None),
            ("ETIMEDOUT", 110, None),
            ("ECONNREFUSED", 111, None),
            ("EHOSTUNREACH", 113, None),
        ];
        for (name, number, expected) in cases {
            assert_eq!(Shortage::of_os_error(number), expected, "{name}");
        }
    }

    #[test]
    fn metrics_name_what_is_short() {
        for shortage in Shortage::ALL {
            assert_eq!(shortage.as_str(), format!("{shortage:?}").to_lowercase());
        }
    }

    #[test]
    fn a_timeout_that_is_noticed_late_is_ours() {
        for (late_ms, expected) in
            [(0, None), (500, None), (501, Some(Shortage::Time)), (60_000, Some(Shortage::Time))]
        {
            let late = Duration::from_millis(late_ms);
            assert_eq!(Shortage::of_late_timeout(late, Duration::from_secs(5)), expected, "{late_ms} ms");
        }
    }
}
