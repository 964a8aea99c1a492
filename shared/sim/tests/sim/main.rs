//! The engine on the memory adapters: one binary, one module per promise or mechanism.

mod bulk_replay;
mod contract;
mod crash;
mod deadlines;
mod keeping_current;
mod moving;
mod regressions;
