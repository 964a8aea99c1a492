#![no_main]

use holdfast_egress::fuzz::response as target;

holdfast_fuzz::run!(target);
