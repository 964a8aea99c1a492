//! The ports in memory, in virtual time, and the contract suite that keeps all adapters alike.

mod backlog;
mod block_on;
mod bulk;
mod clock;
pub mod contract;
mod counting_store;
pub mod crash;
mod entropy;
mod gate;
mod me;
mod memory;
pub mod mutate;
mod queue;
mod scripted_store;
pub mod simulation;
mod store;

pub use backlog::MemoryBacklog;
pub use block_on::block_on;
pub use bulk::Bulk;
pub use clock::VirtualClock;
pub use counting_store::{CountingStore, Reads};
pub use entropy::SeededEntropy;
pub use me::me;
pub use memory::Memory;
pub use queue::MemoryQueue;
pub use scripted_store::{ScriptedStore, StoreCall};
pub use store::{MemoryStore, Puts};
