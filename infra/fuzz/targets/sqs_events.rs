#![no_main]

// The function is a program, and no other crate can use it.
#[allow(dead_code, reason = "only what reads an event is used here")]
#[path = "../../../functions/deliver/src/sqs_event.rs"]
mod sqs_event;

use sqs_event::fuzz as target;

holdfast_fuzz::run!(target);
