use tracing::level_filters::LevelFilter;

use crate::args::{LogFormat, LogLevel};

/// Logs to standard error, one line each. Standard output has only the greeting.
pub(crate) fn start(format: LogFormat, level: LogLevel) {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let builder =
        tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(level).with_target(false);
    match format {
        LogFormat::Text => builder.compact().init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
}
