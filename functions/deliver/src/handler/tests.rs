//! The sample events, through the handler, over the ports in memory.

mod batches;
mod function;
mod sweeps;
