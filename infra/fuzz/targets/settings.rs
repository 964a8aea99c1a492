#![no_main]

use holdfast_aws::fuzz::settings as target;

holdfast_fuzz::run!(target);
