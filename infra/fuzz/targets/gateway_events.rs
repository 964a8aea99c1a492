#![no_main]

use holdfast_aws::fuzz::gateway as target;

holdfast_fuzz::run!(target);
