//! Query parameters, as strict as fields: each once, with a value, and only known ones.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::convert::Infallible;
use std::ops::RangeInclusive;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use holdfast_core::ids::{Tenant, UrlId};
use holdfast_core::rules::url_form;
use holdfast_core::time::Timestamp;

use crate::cursor::{CursorCodec, CursorKey};
use crate::suggest::{quote, unknown};
use crate::{App, FieldError, Problem};

const DEFAULT_LIMIT: u32 = 50;
const MAX_LIMIT: u32 = 100;
pub(crate) const MAX_PARAMS: usize = 64;
/// Read during authentication, and known everywhere.
const TENANT: &str = "tenant";

/// The parameters that no handler has read yet, and what is wrong with the others.
pub(crate) struct Params {
    cursor_key: CursorKey,
    unread: BTreeMap<String, String>,
    /// The names that the handler asked for.
    known: Vec<&'static str>,
    /// Those that decide what is listed, for the cursor.
    filters: Vec<(String, String)>,
    errors: Vec<FieldError>,
}

pub(crate) struct PageRequest {
    pub(crate) limit: usize,
    pub(crate) after: Option<String>,
    pub(crate) cursors: CursorCodec,
}

impl FromRequestParts<Arc<App>> for Params {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Params, Infallible> {
        Ok(Params::parse(parts.uri.query().unwrap_or_default(), app.keys.cursor_key()))
    }
}

/// For calls that have no parameters but `tenant`.
pub(crate) fn reject_unknown(query: Option<&str>) -> Result<(), Problem> {
    let given = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()).take(MAX_PARAMS);
    let errors: Vec<_> =
        given.filter(|(name, _)| name != TENANT).map(|(name, _)| unknown_param(&name, &[])).collect();
    if errors.is_empty() { Ok(()) } else { Err(Problem::invalid(errors)) }
}

fn unknown_param(name: &str, known: &[&str]) -> FieldError {
    FieldError::new(name, unknown("parameter", name, &[known, &[TENANT]].concat()))
}

impl Params {
    pub(crate) fn parse(query: &str, cursor_key: CursorKey) -> Params {
        let (unread, known, filters, errors) = Default::default();
        let mut params = Params { cursor_key, unread, known, filters, errors };
        let given = url::form_urlencoded::parse(query.as_bytes()).into_owned().take(MAX_PARAMS);
        for (name, value) in given.filter(|(name, _)| name != TENANT) {
            if value.is_empty() {
                params.reject(&name, "is empty; give a value or leave it out");
            } else if let Entry::Vacant(free) = params.unread.entry(name.clone()) {
                free.insert(value);
            } else {
                params.reject(&name, "is given more than once; give it once");
            }
        }
        params
    }

    pub(crate) fn reject(&mut self, name: &str, detail: impl Into<String>) {
        self.errors.push(FieldError::new(name, detail));
    }

    fn take(&mut self, name: &'static str) -> Option<String> {
        self.known.push(name);
        self.unread.remove(name)
    }

    /// Takes a parameter that filters the list.
    pub(crate) fn filter(&mut self, name: &'static str) -> Option<String> {
        let value = self.take(name)?;
        self.filters.push((name.to_owned(), value.clone()));
        Some(value)
    }

    /// Takes a parameter that must be given. `None` only with an error.
    pub(crate) fn required(&mut self, name: &'static str) -> Option<String> {
        let is_wrong = self.errors.iter().any(|error| error.field == name);
        let given = self.take(name);
        if given.is_none() && !is_wrong {
            self.reject(name, "is required; add it to the URL");
        }
        given
    }

    /// Takes a filter that is one of a few words.
    pub(crate) fn one_of<T: Copy>(
        &mut self,
        name: &'static str,
        all: &[T],
        word: fn(T) -> &'static str,
    ) -> Option<T> {
        let given = self.filter(name)?;
        let found = all.iter().copied().find(|value| word(*value) == given);
        if found.is_none() {
            let known: Vec<_> = all.iter().copied().map(word).collect();
            self.reject(name, format!("must be one of {}, not {}", known.join(", "), quote(&given)));
        }
        found
    }

    /// Rejects a filter for which there is no index together with `other`.
    pub(crate) fn reject_beside(&mut self, name: &'static str, other: &str) {
        self.reject(name, format!("cannot be combined with {other}; leave one of them out"));
    }

    /// Takes a filter that is the id of a URL, or a URL. `None` also if it is wrong.
    pub(crate) fn url_or_id(&mut self, name: &'static str) -> Option<UrlId> {
        let given = self.filter(name)?;
        if !given.contains("://") {
            // An id that cannot exist is that of no URL.
            return Some(UrlId(given));
        }
        let normalised = url_form::normalise(&given, true);
        normalised.map_err(|error| self.reject(name, error.to_string())).ok().map(|url| UrlId::of(&url))
    }

    pub(crate) fn time(&mut self, name: &'static str) -> Option<Timestamp> {
        let given = self.filter(name)?;
        let time = Timestamp::parse(&given);
        if time.is_none() {
            let given = quote(&given);
            let detail = format!(
                "must be a time in RFC 3339 such as 2026-01-31T12:00:00Z, not {given}; write + as %2B"
            );
            self.reject(name, detail);
        }
        time
    }

    pub(crate) fn number(&mut self, name: &'static str, range: RangeInclusive<u32>) -> Option<u32> {
        let given = self.take(name)?;
        let number = given.parse().ok().filter(|number| range.contains(number));
        if number.is_none() {
            let (min, max) = (range.start(), range.end());
            self.reject(name, format!("must be a number from {min} to {max}, not {}", quote(&given)));
        }
        number
    }

    /// Takes `limit` and the cursor, after all filters were taken, and rejects the rest.
    pub(crate) fn page(
        mut self,
        cursor: &'static str,
        list: &str,
        tenant: &Tenant,
    ) -> Result<PageRequest, Problem> {
        let limit = self.number("limit", 1..=MAX_LIMIT).unwrap_or(DEFAULT_LIMIT) as usize;
        let cursors = CursorCodec::new(&self.cursor_key, list, tenant, std::mem::take(&mut self.filters));
        let after = self.take(cursor).and_then(|given| {
            let after = cursors.decode(&given);
            if after.is_none() {
                let given = quote(&given);
                let detail = format!(
                    "{given} is damaged or belongs to another list; use `next` of the page before, with the same filters"
                );
                self.reject(cursor, detail);
            }
            after
        });
        self.finish()?;
        Ok(PageRequest { limit, after, cursors })
    }

    /// Rejects what was not taken.
    pub(crate) fn finish(mut self) -> Result<(), Problem> {
        for name in self.unread.into_keys() {
            self.errors.push(unknown_param(&name, &self.known));
        }
        if self.errors.is_empty() { Ok(()) } else { Err(Problem::invalid(self.errors)) }
    }
}
