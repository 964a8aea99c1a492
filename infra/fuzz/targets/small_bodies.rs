#![no_main]

use holdfast_api::fuzz::small_bodies as target;

holdfast_fuzz::run!(target);
