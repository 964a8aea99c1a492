//! Changes a URL's state on request, and announces every change, and what died there.

mod announce;
mod announce_deaths;
mod change_state;
mod hand_changes;
mod publish;
mod remove;
mod restore;

pub(super) use change_state::MAX_PARKED_COUNTED;
pub use change_state::{ChangeUrlStateError, UrlStateChange};
pub use hand_changes::ChangedTooOften;
pub(super) use hand_changes::HandChanges;
