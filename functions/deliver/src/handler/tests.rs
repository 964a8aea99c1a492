//! The sample events, through the handler, over the ports in memory.

mod batches;
mod sweeps;
mod world;
