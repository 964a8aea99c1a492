#![doc = include_str!("../README.md")]

pub mod ids;
pub mod messages;
pub mod ports;
pub mod records;
pub mod rules;
pub mod time;
pub mod usecases;
