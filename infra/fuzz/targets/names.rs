#![no_main]

use holdfast_core::rules::fuzz::names as target;

holdfast_fuzz::run!(target);
