//! Changes a URL's state on request, and announces every change.

mod announce;
mod change_state;
mod hand_changes;
mod remove;
mod restore;

pub(super) use change_state::MAX_PARKED_COUNTED;
pub use change_state::{ChangeUrlStateError, UrlStateChange};
pub(super) use hand_changes::HandChanges;
