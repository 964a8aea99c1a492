#![doc = include_str!("../README.md")]

pub mod engine;
pub mod ids;
pub mod ports;
pub mod records;
pub mod rules;
pub mod time;
