use tracing::level_filters::LevelFilter;

use crate::args::LogFormat;

/// Logs to standard error, one line each. Standard output has only the greeting.
pub(crate) fn start(format: LogFormat, level: LevelFilter) {
    let builder =
        tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(level).with_target(false);
    match format {
        LogFormat::Text => builder.compact().init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
}
