//! A first whole-system simulation: the real use-cases on the memory adapters, dropped at any await, with messages duplicated
//! and redelivered. The checkers say whether the promises held.

mod check;
mod in_flight;
mod interrupt;
mod receiver;
mod world;

pub use in_flight::InFlight;
pub use interrupt::Interruptible;
pub use receiver::{Receiver, Request};
pub use world::{Crash, World};
