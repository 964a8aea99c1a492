#![no_main]

use holdfast_core::rules::fuzz::url as target;

holdfast_fuzz::run!(target);
