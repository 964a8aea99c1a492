#![no_main]

use holdfast_api::fuzz::subscriptions as target;

holdfast_fuzz::run!(target);
