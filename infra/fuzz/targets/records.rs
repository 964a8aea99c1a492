#![no_main]

use holdfast_core::records::fuzz::record as target;

holdfast_fuzz::run!(target);
