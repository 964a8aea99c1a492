#![no_main]

use holdfast_core::records::fuzz::message as target;

holdfast_fuzz::run!(target);
