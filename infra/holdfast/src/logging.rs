//! Logs to standard error, one line each. Standard output has only the greeting.
//!
//! A thread of its own writes the lines: their reader may be slow, and requests and attempts must not wait for that. Lines that it
//! cannot take in time are left out and counted.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::args::LogFormat;

/// How many lines wait to be written at the most. An attempt has one of about 250 bytes.
const MAX_LINES: usize = 10_000;
/// How long the process waits at its end for the lines that are left.
const LAST_LINES_TIMEOUT: Duration = Duration::from_secs(1);

enum Command {
    Line(Vec<u8>),
    /// Everything before it was written: the sender is dropped.
    Flush(SyncSender<()>),
}

/// The line that says how many were left out.
type LeftOut = fn(u64) -> String;

/// Makes the writer of each line. All clones are the same log.
#[derive(Clone)]
struct Log {
    commands: SyncSender<Command>,
    left_out: Arc<AtomicU64>,
}

/// Waits for the last lines when it is dropped.
pub(crate) struct LastLines(Log);

pub(crate) fn start(format: LogFormat, level: LevelFilter) -> LastLines {
    let log = start_log(format);
    let builder = tracing_subscriber::fmt().with_writer(log.clone()).with_max_level(level).with_target(false);
    match format {
        LogFormat::Text => builder.compact().init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
    LastLines(log)
}

/// The same, and spans go to a collector.
#[cfg(feature = "otlp")]
pub(crate) fn start_with(format: LogFormat, level: LevelFilter, spans: &crate::otlp::Spans) -> LastLines {
    use tracing_subscriber::Layer as _;
    use tracing_subscriber::layer::SubscriberExt as _;
    use tracing_subscriber::util::SubscriberInitExt as _;

    let log = start_log(format);
    let registry = tracing_subscriber::registry().with(spans.layer());
    let lines = tracing_subscriber::fmt::layer().with_writer(log.clone()).with_target(false);
    match format {
        LogFormat::Text => registry.with(lines.compact().with_filter(level)).init(),
        LogFormat::Json => registry.with(lines.json().flatten_event(true).with_filter(level)).init(),
    }
    LastLines(log)
}

fn start_log(format: LogFormat) -> Log {
    let left_out: LeftOut = match format {
        LogFormat::Text => |count| format!("WARN log.left_out lines={count}\n"),
        LogFormat::Json => {
            |count| format!("{{\"level\":\"WARN\",\"message\":\"log.left_out\",\"lines\":{count}}}\n")
        }
    };
    Log::start(io::stderr(), MAX_LINES, left_out)
}

impl Log {
    fn start(to: impl Write + Send + 'static, max_lines: usize, line: LeftOut) -> Log {
        let (commands, lines) = sync_channel(max_lines);
        let left_out = Arc::new(AtomicU64::new(0));
        let log = Log { commands, left_out: Arc::clone(&left_out) };
        // Without the thread the process could not log, which is no reason to end it: its lines are left out.
        let _ = std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || write_lines(to, &lines, &left_out, line));
        log
    }
}

/// If standard error cannot be written, there is no place left to report it.
fn write_lines(mut to: impl Write, lines: &Receiver<Command>, left_out: &AtomicU64, line_of: LeftOut) {
    while let Ok(command) = lines.recv() {
        match command {
            Command::Line(line) => {
                let _ = to.write_all(&line);
            }
            Command::Flush(_done) => {
                let _ = to.flush();
            }
        }
        let count = left_out.swap(0, Ordering::Relaxed);
        if count > 0 {
            let _ = to.write_all(line_of(count).as_bytes());
        }
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Log;

    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}

impl Write for Log {
    /// A line is always written whole.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.commands.try_send(Command::Line(line.to_vec())).is_err() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for LastLines {
    fn drop(&mut self) {
        let (sender, done) = sync_channel(0);
        let commands = self.0.commands.clone();
        // There may be no room for it before some lines are written.
        std::thread::spawn(move || commands.send(Command::Flush(sender)));
        let _ = done.recv_timeout(LAST_LINES_TIMEOUT);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::*;

    /// Keeps what is written, but not before its gate is open.
    #[derive(Clone, Default)]
    struct Slow {
        gate: Arc<Mutex<()>>,
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _open = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
            self.written.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Two workers waited for a reader of the log, and everybody waited for them.
    #[test]
    fn lines_are_left_out_and_counted_while_they_are_read_too_slowly() {
        let slow = Slow::default();
        let closed = slow.gate.lock().unwrap();
        let mut log = Log::start(slow.clone(), 3, |count| format!("{count} left out\n"));
        (0..100).for_each(|n| log.write_all(format!("line {n}\n").as_bytes()).unwrap());
        drop(closed);
        drop(LastLines(log));
        let written = slow.written.lock().unwrap();
        let written = String::from_utf8_lossy(&written);
        let lines = written.lines().filter(|line| line.starts_with("line ")).count();
        assert!((3..=4).contains(&lines), "{written}");
        let left_out = format!("\n{} left out\n", 100 - lines);
        assert!(written.starts_with("line 0\n") && written.contains(&left_out), "{written}");
    }
}
