//! AWS as its documentation describes it, where the emulator is more forgiving.

pub mod units;
