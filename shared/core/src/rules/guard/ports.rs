//! Which ports may be posted to.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Below are mail, name servers and the like: services that might take a POST for something of their own.
const UNPRIVILEGED: RangeInclusive<u16> = 1024..=u16::MAX;
const EVERY: RangeInclusive<u16> = 1..=u16::MAX;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports(Vec<RangeInclusive<u16>>);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no port: write `any`, or ports and ranges from 1 to 65535 such as 443,8000-8999")]
pub struct BadPort(String);

impl Ports {
    #[must_use]
    pub fn any() -> Ports {
        Ports(vec![EVERY])
    }

    /// Those of the schemes that are allowed, and all that need no privilege to listen on.
    #[must_use]
    pub fn usual(http_allowed: bool) -> Ports {
        let http = http_allowed.then_some(80..=80);
        Ports(http.into_iter().chain([443..=443, UNPRIVILEGED]).collect())
    }

    #[must_use]
    pub fn contains(&self, port: u16) -> bool {
        self.0.iter().any(|range| range.contains(&port))
    }

    /// Reads `any`, or ports and ranges that are separated by commas. Reports all faults.
    pub fn list(text: &str) -> Result<Ports, Vec<BadPort>> {
        if text.trim() == "any" {
            return Ok(Ports::any());
        }
        let mut ranges = Vec::new();
        let mut faults = Vec::new();
        for part in text.split(',').map(str::trim) {
            match range(part) {
                Some(range) => ranges.push(range),
                None => faults.push(BadPort(part.to_owned())),
            }
        }
        if faults.is_empty() { Ok(Ports(ranges)) } else { Err(faults) }
    }
}

fn range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let port = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        u16::from_str(text).ok().filter(|port| digits && *port > 0)
    };
    Some(port(first)?..=port(last)?).filter(|range| !range.is_empty())
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.0.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { ", " })?;
            match (range.start(), range.end()) {
                (first, last) if first == last => write!(f, "{first}")?,
                (first, last) => write!(f, "{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_ranges_are_read() {
        let ports = Ports::list("443, 8000-8999,22-22").unwrap();
        assert_eq!(ports.to_string(), "443, 8000-8999, 22");
        for (port, allowed) in
            [(443, true), (8000, true), (8999, true), (9000, false), (22, true), (0, false)]
        {
            assert_eq!(ports.contains(port), allowed, "{port}");
        }
        assert_eq!(Ports::list("any").unwrap(), Ports::any());
        assert!(!Ports::any().contains(0));
    }

    #[test]
    fn what_is_no_port_is_told() {
        for text in ["", "0", "65536", "a", "-1", "1-", "2-1", "0-5", "+1", "1..2", "ANY"] {
            assert_eq!(Ports::list(text).unwrap_err().len(), 1, "{text:?}");
        }
        let faults = Ports::list("443,x,9-8,80").unwrap_err();
        assert_eq!(faults, [BadPort("x".to_owned()), BadPort("9-8".to_owned())]);
    }

    #[test]
    fn the_usual_ports_are_those_of_the_schemes_and_the_unprivileged() {
        assert_eq!(Ports::usual(false).to_string(), "443, 1024-65535");
        assert_eq!(Ports::usual(true).to_string(), "80, 443, 1024-65535");
    }
}
