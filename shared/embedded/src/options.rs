use std::time::Duration;

/// How the queues behave and how much memory they take.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a received message stays invisible, in real time.
    pub visibility: Duration,
    /// How many messages of one group can be in flight: this limits concurrent attempts to one URL.
    pub per_group_limit: usize,
    /// How many messages of each queue are kept in memory, not counting bodies; the others wait in the file.
    pub memory_messages: usize,
    /// How many bytes of bodies of each queue are kept in memory; other bodies are read from the file on receipt.
    pub memory_bytes: usize,
    pub readers: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            visibility: Duration::from_secs(360),
            per_group_limit: 64,
            memory_messages: 250_000,
            memory_bytes: 64 << 20,
            readers: 4,
        }
    }
}
