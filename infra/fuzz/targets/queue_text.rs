#![no_main]

use holdfast_aws::fuzz::queue_text as target;

holdfast_fuzz::run!(target);
