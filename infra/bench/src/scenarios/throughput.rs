//! Posts as fast as they are answered, until all of them have arrived.

use std::sync::atomic::Ordering;

use anyhow::Result;

use super::{Bench, CONNECTIONS, FRESH, arrived, posts};
use crate::generator::Until;
use crate::measure::now;
use crate::process::{Holdfast, Process};
use crate::receiver::{GOOD, Receiver};
use crate::report::Figure;
use crate::report::Target::{AtLeast, AtMost};

/// Of one load.
pub(super) struct Speed {
    pub(super) per_second: f64,
    /// Processor time for each event.
    cpu_ms: f64,
}

pub(super) async fn run(bench: &Bench) -> Result<Vec<Figure>> {
    let receiver = Receiver::start().await?;
    let relay = {
        let process = Process::relay(&receiver.url(GOOD))?;
        load(bench, &process, "", &receiver, 1).await?
    };
    let mut figures =
        vec![Figure::new("relay", relay.per_second, "/s"), Figure::new("relay, CPU", relay.cpu_ms, "ms")];
    let loads = [
        ("single posts", 1, &[][..], 0.6, Some(2.0)),
        ("posts of 10", 10, &[][..], 1.0, Some(1.5)),
        ("single posts, log `trouble`", 1, &["--delivery-log", "trouble"][..], 0.75, None),
    ];
    for (name, events, arguments, least, max_cpu) in loads {
        let holdfast = Holdfast::start(&bench.holdfast, arguments).await?;
        holdfast.subscribe(&receiver.url(GOOD), FRESH).await?;
        let speed = load(bench, &holdfast.process, &holdfast.key, &receiver, events).await?;
        let share = speed.per_second / relay.per_second;
        figures.push(Figure::ratio(format!("{name}, of the relay"), share).target(AtLeast(least)));
        let cpu = Figure::ratio(format!("{name}, CPU of the relay"), speed.cpu_ms / relay.cpu_ms);
        figures.push(match max_cpu {
            Some(most) => cpu.target(AtMost(most)),
            None => cpu,
        });
        figures.push(Figure::new(name, speed.per_second, "/s"));
        figures.push(Figure::new(format!("{name}, CPU"), speed.cpu_ms, "ms"));
    }
    Ok(figures)
}

/// Posts of so many events, as fast as they are answered.
pub(super) async fn load(
    bench: &Bench,
    process: &Process,
    key: &str,
    receiver: &Receiver,
    events: usize,
) -> Result<Speed> {
    let posts = posts(process, key, receiver, events);
    // Connections are open and caches are filled before anything is measured.
    let before = receiver.arrivals.good.load(Ordering::Relaxed);
    let warm = posts.flood(CONNECTIONS, Until::After(bench.load_time / 5)).await?;
    arrived(&receiver.arrivals.good, before + warm).await?;
    let (started, cpu) = (now(), process.cpu_time()?);
    let accepted = posts.flood(CONNECTIONS, Until::After(bench.load_time)).await?;
    arrived(&receiver.arrivals.good, before + warm + accepted).await?;
    let seconds = started.elapsed().as_secs_f64();
    let cpu_ms = (process.cpu_time()? - cpu).as_secs_f64() * 1_000.0 / accepted as f64;
    Ok(Speed { per_second: accepted as f64 / seconds, cpu_ms })
}
