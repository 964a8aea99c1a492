use std::sync::{Mutex, PoisonError};

use holdfast_core::time::Timestamp;

/// What happened, as a timeline for people.
#[derive(Default)]
pub struct Story {
    /// `None`: the story is not wanted.
    lines: Option<Mutex<Vec<String>>>,
}

impl Story {
    #[must_use]
    pub fn told() -> Story {
        Story { lines: Some(Mutex::default()) }
    }

    pub(super) fn tell(&self, at: Timestamp, what: impl FnOnce() -> String) {
        if let Some(lines) = &self.lines {
            let line = format!("{at}  {}", what());
            lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        }
    }

    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let lines = self.lines.as_ref();
        lines.map(|lines| lines.lock().unwrap_or_else(PoisonError::into_inner).clone()).unwrap_or_default()
    }
}
