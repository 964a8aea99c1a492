#![no_main]

use holdfast_core::rules::fuzz::networks as target;

holdfast_fuzz::run!(target);
