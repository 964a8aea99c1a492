//! What can be seen of events, deliveries, attempts and URLs.

mod activity;
mod attempts_feed;
mod attempts_of_all;
mod deliveries;
mod delivery_view;
mod event;
mod event_deliveries;
mod events;
mod explain;
mod failing_urls;
mod in_state;
mod overview;
mod urls;

pub(super) use activity::Activity;
pub use attempts_feed::{AttemptFilter, AttemptsPage, MAX_FEED_ITEMS};
pub use attempts_of_all::AllAttemptsPage;
pub use deliveries::{DeliveryFilter, ListError, Scope};
pub use delivery_view::DeliveryView;
pub use event::EventView;
pub use events::{EventFilter, ListedEvent};
pub use explain::{Explanation, Verdict};
pub use failing_urls::TroubleSort;
pub use overview::{MAX_MINUTES_SHOWN, Overview, StateCounts, UrlCounts};
pub use urls::{UrlDetails, UrlFilter, UrlView};

/// How many entries are read for one page, so that a rare state does not make one request read everything.
const MAX_SCANNED: usize = 1_000;

/// What one read counts for. A read of few entries costs as much as one of this many, so that the last item of a page is not searched
/// for in thousands of reads.
pub(super) fn scan_cost(found: usize) -> usize {
    found.max(100)
}
