//! What keeps deliveries going when URLs fail, functions die and tickets are lost.

mod expire;
mod probe;
mod recheck;
mod release;
mod sweep;
mod unpark;

pub(super) use recheck::ParkedUrls;
pub use sweep::SweepReport;
