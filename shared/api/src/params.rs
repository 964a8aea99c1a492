//! Query parameters, as strict as fields: each once, with a value, and none that nobody knows.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::convert::Infallible;
use std::ops::RangeInclusive;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use holdfast_core::ids::Tenant;
use holdfast_core::time::Timestamp;

use crate::cursor::ListTag;
use crate::{Fault, Problem};

const DEFAULT_LIMIT: u32 = 50;
const MAX_LIMIT: u32 = 100;
const MAX_PARAMS: usize = 64;
const UNKNOWN: &str = "is not a parameter that is known here; leave it out";

/// The parameters that are not taken yet, and what is wrong with those that are.
pub(crate) struct Params {
    left: BTreeMap<String, String>,
    /// Those that decide what is listed, for the cursor.
    filters: Vec<(String, String)>,
    faults: Vec<Fault>,
}

/// Which part of a list is asked for.
pub(crate) struct Part {
    pub(crate) limit: usize,
    pub(crate) after: Option<String>,
    pub(crate) tag: ListTag,
}

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Params, Infallible> {
        Ok(Params::of(parts.uri.query().unwrap_or_default()))
    }
}

/// For calls that have no parameters but `tenant`, which whoever recognises the caller has read already.
pub(crate) fn refuse_unknown(query: Option<&str>) -> Result<(), Problem> {
    let given = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()).take(MAX_PARAMS);
    let unknown = given.filter(|(name, _)| name != "tenant");
    let faults: Vec<Fault> = unknown.map(|(name, _)| Fault::new(name, UNKNOWN)).collect();
    if faults.is_empty() { Ok(()) } else { Err(Problem::invalid(faults)) }
}

impl Params {
    fn of(query: &str) -> Params {
        let mut params = Params { left: BTreeMap::new(), filters: Vec::new(), faults: Vec::new() };
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()).into_owned().take(MAX_PARAMS) {
            // Whoever may ask was checked with it, and the list is told by the tenant itself.
            if name == "tenant" {
                continue;
            }
            if value.is_empty() {
                params.fault(&name, "is empty; give a value or leave it out");
                continue;
            }
            match params.left.entry(name) {
                Entry::Vacant(free) => {
                    free.insert(value);
                }
                Entry::Occupied(taken) => {
                    params.faults.push(Fault::new(taken.key(), "is given more than once"));
                }
            }
        }
        params
    }

    fn fault(&mut self, name: &str, detail: impl Into<String>) {
        self.faults.push(Fault::new(name, detail));
    }

    /// Takes a parameter that narrows the list.
    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        let value = self.left.remove(name)?;
        self.filters.push((name.to_owned(), value.clone()));
        Some(value)
    }

    /// Takes one of a few words.
    pub(crate) fn word<T: Copy>(&mut self, name: &str, words: &[(&str, T)]) -> Option<T> {
        let given = self.text(name)?;
        let found = words.iter().find(|(word, _)| *word == given).map(|(_, meaning)| *meaning);
        if found.is_none() {
            let known: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            self.fault(name, format!("must be one of {}", known.join(", ")));
        }
        found
    }

    pub(crate) fn time(&mut self, name: &str) -> Option<Timestamp> {
        let time = Timestamp::parse(&self.text(name)?);
        if time.is_none() {
            let detail = "must be a time in RFC 3339 such as 2026-01-31T12:00:00Z; write + as %2B";
            self.fault(name, detail);
        }
        time
    }

    /// Takes a number of this range.
    pub(crate) fn number(&mut self, name: &str, range: RangeInclusive<u32>) -> Option<u32> {
        let number = self.left.remove(name)?.parse().ok().filter(|number| range.contains(number));
        if number.is_none() {
            self.fault(name, format!("must be a number from {} to {}", range.start(), range.end()));
        }
        number
    }

    /// Takes `limit` and `cursor`, after all filters were taken, and refuses the rest.
    pub(crate) fn finish(self, list: &str, tenant: &Tenant) -> Result<Part, Problem> {
        self.finish_by("cursor", list, tenant)
    }

    /// As `finish`, with another name for the cursor.
    pub(crate) fn finish_by(mut self, cursor: &str, list: &str, tenant: &Tenant) -> Result<Part, Problem> {
        let limit = self.number("limit", 1..=MAX_LIMIT).unwrap_or(DEFAULT_LIMIT) as usize;
        let tag = ListTag::new(list, tenant, std::mem::take(&mut self.filters));
        let after = self.left.remove(cursor).and_then(|given| {
            let after = tag.read(&given);
            if after.is_none() {
                let detail = "is damaged or belongs to another list; \
                              use `next` of the page before, with the same filters";
                self.fault(cursor, detail);
            }
            after
        });
        self.end()?;
        Ok(Part { limit, after, tag })
    }

    /// Refuses what was not taken.
    pub(crate) fn end(mut self) -> Result<(), Problem> {
        for name in std::mem::take(&mut self.left).into_keys() {
            self.fault(&name, UNKNOWN);
        }
        if self.faults.is_empty() { Ok(()) } else { Err(Problem::invalid(self.faults)) }
    }
}
