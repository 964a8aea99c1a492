#![no_main]

use holdfast_api::fuzz::events as target;

holdfast_fuzz::run!(target);
