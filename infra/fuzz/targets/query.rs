#![no_main]

use holdfast_api::fuzz::query as target;

holdfast_fuzz::run!(target);
