//! The ports in memory, in virtual time, and the contract suite that keeps all adapters alike.

mod backlog;
mod block_on;
mod clock;
pub mod contract;
pub mod crash;
mod entropy;
mod gate;
mod memory;
pub mod mutate;
mod queue;
mod scripted_store;
pub mod simulation;
mod store;

pub use backlog::MemoryBacklog;
pub use block_on::block_on;
pub use clock::VirtualClock;
pub use entropy::SeededEntropy;
pub use memory::Memory;
pub use queue::MemoryQueue;
pub use scripted_store::{ScriptedStore, StoreCall};
pub use store::{MemoryStore, Puts};
