#![no_main]

use holdfast_egress::fuzz::certificates as target;

holdfast_fuzz::run!(target);
