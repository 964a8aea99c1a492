//! What can be seen of events, deliveries and URLs.

mod deliveries;
mod delivery_view;
mod event;
mod event_deliveries;
mod in_state;
mod urls;

pub use deliveries::{DeliveryFilter, ListError, Scope};
pub use delivery_view::DeliveryView;
pub use event::EventView;
pub use urls::UrlView;

/// How many entries are looked through for one page, so that a rare state does not make one request read everything.
const MOST_LOOKED_THROUGH: usize = 2_000;

/// What one round of looking counts for. A round that is asked for little costs as much as one that is asked for this, so that the last
/// item of a page is not looked for in thousands of rounds.
pub(super) fn looked_at(found: usize) -> usize {
    found.max(100)
}

/// One page of a list, and where the next one starts.
#[derive(Clone, Debug)]
pub struct ListPage<T> {
    pub items: Vec<T>,
    pub next: Option<String>,
}
