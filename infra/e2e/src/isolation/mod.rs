//! One tenant never hurts another: a victim with healthy URLs and steady traffic beside an attacker, on a server of their own for each
//! attack.
//!
//! What is asserted are counts, which do not depend on how busy the machine is: the victim's events arrive as they were accepted, its
//! URLs have no failure, no request of it fails, and few attempts of the attacker start or end between the victim's 202 and its arrival.
//! Latencies are only reported.

mod arena;
mod disabled_url;
mod event_types;
mod filters;
mod flood;
mod hoarders;
mod hostile_answers;
mod idle_connections;
mod large_reads;
mod many_tenants;
mod receivers;
mod report;
mod server;
mod signatures;
mod slow_bodies;
mod slow_urls;
mod state_changes;
mod stranger;
mod tally;
mod tenant;
mod victim;

use std::path::Path;
use std::pin::Pin;

use anyhow::{Context, Result};

use arena::Arena;
pub use arena::Size;
pub use report::Outcome;

type Running<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

pub struct Attack {
    pub name: &'static str,
    /// Soft and hard limit on the open files of the server.
    files: Option<(u32, u32)>,
    /// The most memory the server may use, in MB.
    memory_mb: u64,
    run: for<'a> fn(&'a mut Arena) -> Running<'a>,
}

macro_rules! attack {
    ($name:ident, $memory_mb:expr) => {
        attack!($name, $memory_mb, None)
    };
    ($name:ident, $memory_mb:expr, $files:expr) => {
        Attack {
            name: stringify!($name),
            files: $files,
            memory_mb: $memory_mb,
            run: |arena| Box::pin($name::run(arena)),
        }
    };
}

#[must_use]
pub fn all() -> Vec<Attack> {
    vec![
        attack!(slow_urls, 300),
        attack!(flood, 600),
        attack!(disabled_url, 300),
        attack!(filters, 300),
        attack!(hostile_answers, 300),
        attack!(idle_connections, 300, Some(idle_connections::FILES)),
        attack!(event_types, 600),
        attack!(stranger, 300),
        attack!(slow_bodies, 300),
        attack!(many_tenants, 600),
        attack!(signatures, 600),
        attack!(state_changes, 300),
        attack!(large_reads, 300),
        attack!(hoarders, 400),
    ]
}

impl Attack {
    /// Runs it on a new server. An error means that it could not be run; what the attack broke is in the outcome.
    pub async fn run(&self, binary: &Path, size: Size) -> Result<Outcome> {
        let mut arena = Arena::new(binary, size, self.files).await.context("the server does not start")?;
        let mut result = (self.run)(&mut arena).await;
        if result.is_ok() {
            result = arena.check_shortages().await;
        }
        result.with_context(|| format!("{}; the server's log: {}", self.name, arena.server.log()))?;
        Outcome::of(self.name, arena, self.memory_mb)
    }
}
