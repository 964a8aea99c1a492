#![no_main]

use holdfast_core::rules::fuzz::matching as target;

holdfast_fuzz::run!(target);
