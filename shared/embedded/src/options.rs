use std::time::Duration;

/// How the queues behave and how much memory they take.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a received message stays invisible, in real time.
    pub visibility: Duration,
    /// How many messages of one group can be in flight: this limits concurrent attempts to one URL.
    pub per_group_limit: usize,
    /// How many first attempts, and how many other messages, can be in flight. A tenant may have half of those
    /// that others leave.
    pub first_concurrency: usize,
    pub retry_concurrency: usize,
    /// How many messages of each queue are kept in memory, not counting bodies; the others wait in the file. A tenant may have half
    /// of them, and each group a few more if there is no room.
    pub memory_messages: usize,
    /// How many messages of one group are kept in memory, beside those in flight.
    pub group_messages: usize,
    /// How many bytes of bodies of each queue are kept in memory; other bodies are read from the file on receipt.
    pub memory_bytes: usize,
    /// How many bytes of bodies can be in flight in each queue: an attempt holds its body. A tenant may have a quarter of
    /// what others leave of them, and always a little.
    pub in_flight_bytes: u64,
    /// How long bodies are kept that come with messages, on the schedule clock. They are stored apart from their messages then, as they are
    /// for the log of all deliveries, so that they are written once. `None`: a body goes with its message.
    pub keep_bodies: Option<Duration>,
    /// How many reads run on the threads of callers at the same time, and how many on threads of their own.
    pub readers: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            visibility: Duration::from_secs(360),
            per_group_limit: 64,
            first_concurrency: usize::MAX,
            retry_concurrency: usize::MAX,
            memory_messages: 100_000,
            group_messages: 1_000,
            memory_bytes: 48 << 20,
            in_flight_bytes: 48 << 20,
            keep_bodies: None,
            readers: 4,
        }
    }
}
