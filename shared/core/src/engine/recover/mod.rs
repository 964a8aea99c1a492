//! What keeps deliveries going when URLs fail, functions die and tickets are lost.

mod expire;
mod park;
mod probe;
mod release;
mod sweep;

pub(super) use park::ParkedUrls;
pub use sweep::SweepReport;
