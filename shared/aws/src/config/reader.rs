use std::fmt::Display;
use std::ops::RangeInclusive;

use super::Faults;

/// Reads variables one by one and collects their faults.
pub(super) struct Reader<'a> {
    lookup: &'a dyn Fn(&str) -> Option<String>,
    faults: Vec<String>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(lookup: &'a dyn Fn(&str) -> Option<String>) -> Reader<'a> {
        Reader { lookup, faults: Vec::new() }
    }

    pub(super) fn fault(&mut self, sentence: String) {
        self.faults.push(sentence);
    }

    /// An empty variable counts as not set: a template cannot omit one.
    pub(super) fn optional(&self, name: &str) -> Option<String> {
        (self.lookup)(name).filter(|value| !value.is_empty())
    }

    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        let value = self.optional(name);
        if value.is_none() {
            self.fault(format!("{name} is not set"));
        }
        value
    }

    pub(super) fn number(&mut self, name: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let text = self.text(name)?;
        let number = text.parse().ok().filter(|number| range.contains(number));
        if number.is_none() {
            let (min, max) = (range.start(), range.end());
            self.fault(format!("{name} is {text:?}, but must be a whole number from {min} to {max}"));
        }
        number
    }

    pub(super) fn choice<T: Copy>(&mut self, name: &str, choices: &[(&str, T)]) -> Option<T> {
        let text = self.text(name)?;
        let chosen = choices.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        if chosen.is_none() {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            self.fault(format!("{name} is {text:?}, but must be one of: {}", words.join(", ")));
        }
        chosen
    }

    pub(super) fn url(&mut self, name: &str) -> Option<String> {
        let text = self.text(name)?;
        let is_url = url::Url::parse(&text)
            .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.host().is_some());
        if !is_url {
            self.fault(format!("{name} is {text:?}, but must be the URL of a queue"));
            return None;
        }
        Some(text)
    }

    /// A list, or `default` if it is not set. Each invalid part is a fault.
    pub(super) fn list<T, E: Display>(
        &mut self,
        name: &str,
        default: T,
        parse: impl FnOnce(&str) -> Result<T, Vec<E>>,
    ) -> Option<T> {
        let Some(text) = self.optional(name) else { return Some(default) };
        parse(&text).map_err(|bad| bad.iter().for_each(|each| self.fault(format!("{name}: {each}")))).ok()
    }

    pub(super) fn finish<T>(self, made: impl FnOnce() -> Option<T>) -> Result<T, Faults> {
        if !self.faults.is_empty() {
            return Err(Faults(self.faults));
        }
        made().ok_or_else(|| Faults(vec!["a variable is missing".to_owned()]))
    }
}
