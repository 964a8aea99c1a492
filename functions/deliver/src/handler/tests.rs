//! The sample events, through the handler, over a Holdfast in memory whose receiver and leftovers do as they are told.

mod batches;
mod sweeps;
mod world;
