//! What every host takes from its machine: the clock and randomness. No AWS, no runtime.

mod clock;
mod entropy;

pub use clock::{Anchor, MachineClock, machine_time};
pub use entropy::OsEntropy;
