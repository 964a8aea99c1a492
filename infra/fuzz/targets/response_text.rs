#![no_main]

use holdfast_egress::fuzz::text as target;

holdfast_fuzz::run!(target);
