use tracing::Level;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

/// Logs to standard output, which goes to CloudWatch: one line of JSON per entry.
pub fn start(level: Level) {
    let lines = fmt::layer()
        .json()
        .flatten_event(true)
        .with_current_span(false)
        .with_span_list(false)
        .with_target(false)
        .with_ansi(false)
        .with_writer(std::io::stdout);
    tracing_subscriber::registry().with(lines.with_filter(ours(level))).init();
}

/// Other crates log warnings and errors only: at lower levels some of them print requests, which may hold payloads and keys.
fn ours(level: Level) -> Targets {
    let others = LevelFilter::from_level(level).min(LevelFilter::WARN);
    Targets::new().with_default(others).with_target("holdfast", level)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_crates_log_below_warnings() {
        let debug = ours(Level::DEBUG);
        assert!(debug.would_enable("holdfast_core::engine", &Level::DEBUG));
        assert!(debug.would_enable("holdfast_deliver", &Level::INFO));
        assert!(debug.would_enable("aws_smithy_runtime", &Level::WARN));
        assert!(!debug.would_enable("aws_smithy_runtime", &Level::INFO));
        assert!(!debug.would_enable("hyper", &Level::DEBUG));
        let error = ours(Level::ERROR);
        assert!(!error.would_enable("holdfast_core", &Level::WARN));
        assert!(!error.would_enable("hyper", &Level::WARN));
    }
}
