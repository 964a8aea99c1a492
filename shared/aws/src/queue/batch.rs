//! Batches: what goes into one request, and what is repeated when a part of it fails.

use std::time::Duration;

use aws_sdk_sqs::types::BatchResultErrorEntry;
use futures_util::stream::{self, StreamExt};
use holdfast_core::ports::QueueError;

use crate::call_error::CallError;

/// What SQS takes in one request.
const MAX_ENTRIES: usize = 10;
/// Bodies and message attributes together; ids, groups and delays do not count. A queue may be configured to take more.
const MAX_BYTES: usize = 262_144;
const MAX_CONCURRENT: usize = 16;
/// How often an entry is tried in all. A whole request that fails has been repeated by the SDK already.
const MAX_TRIES: u32 = 4;

/// What SQS did with one entry of a batch.
pub(super) enum Verdict {
    Taken,
    /// Not the sender's fault, so it may be taken the next time.
    Busy(QueueError),
    Refused(QueueError),
}

/// Divides entries into requests, in their order. One that is too large by itself is alone in its request.
pub(super) fn pack<T>(entries: Vec<T>, bytes: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let mut batches: Vec<Vec<T>> = Vec::new();
    let mut used = 0;
    for entry in entries {
        let more = bytes(&entry);
        match batches.last_mut() {
            Some(batch) if batch.len() < MAX_ENTRIES && used + more <= MAX_BYTES => {
                used += more;
                batch.push(entry);
            }
            _ => {
                used = more;
                batches.push(vec![entry]);
            }
        }
    }
    batches
}

/// Sends all batches, a bounded number at the same time. Returns the entries that were not taken, and why.
pub(super) async fn send_all<T, F, Fut>(batches: Vec<Vec<T>>, request: F) -> Vec<(T, QueueError)>
where
    T: Send,
    F: Fn(&[T]) -> Fut + Sync,
    Fut: Future<Output = Result<Vec<Verdict>, QueueError>> + Send,
{
    let sends: Vec<_> = batches.into_iter().map(|batch| until_taken(batch, &request)).collect();
    stream::iter(sends).buffer_unordered(MAX_CONCURRENT).concat().await
}

/// Sends a batch, and repeats the entries that may be taken the next time.
async fn until_taken<T, F, Fut>(mut entries: Vec<T>, request: &F) -> Vec<(T, QueueError)>
where
    T: Send,
    F: Fn(&[T]) -> Fut + Sync,
    Fut: Future<Output = Result<Vec<Verdict>, QueueError>> + Send,
{
    let mut left = Vec::new();
    let mut tries = 0;
    while !entries.is_empty() {
        tries += 1;
        let verdicts = match request(&entries).await {
            Ok(verdicts) => verdicts,
            Err(error) => {
                left.extend(entries.into_iter().map(|entry| (entry, error.clone())));
                return left;
            }
        };
        assert_eq!(verdicts.len(), entries.len(), "one verdict for each entry");
        let mut again = Vec::new();
        for (entry, verdict) in entries.into_iter().zip(verdicts) {
            match verdict {
                Verdict::Taken => {}
                Verdict::Busy(_) if tries < MAX_TRIES => again.push(entry),
                Verdict::Busy(error) | Verdict::Refused(error) => left.push((entry, error)),
            }
        }
        if !again.is_empty() {
            pause(tries).await;
        }
        entries = again;
    }
    left
}

/// 100, 200, 400 ms, shortened by a random part of up to a half, so that requests that were throttled together spread out.
async fn pause(tries: u32) {
    let max = Duration::from_millis(50 << tries.min(5));
    let random = getrandom::u32().unwrap_or_default();
    let omitted = max.mul_f64(f64::from(random) / f64::from(u32::MAX) / 2.0);
    #[expect(clippy::disallowed_methods, reason = "SQS does not signal when it can take more")]
    tokio::time::sleep(max - omitted).await;
}

/// The id of an entry is its place in the request.
pub(super) fn id(place: usize) -> String {
    place.to_string()
}

/// What SQS did with each of `count` entries. One that the response does not mention counts as not taken.
pub(super) fn verdicts<'a>(
    operation: &'static str,
    count: usize,
    taken: impl Iterator<Item = &'a str>,
    failed: &[BatchResultErrorEntry],
    is_fine: impl Fn(&BatchResultErrorEntry) -> bool,
) -> Vec<Verdict> {
    let missing = || CallError::of_entry(operation, "the response does not mention the entry", None);
    let mut verdicts: Vec<Verdict> = (0..count).map(|_| Verdict::Busy(missing().into())).collect();
    let mut set = |id: &str, verdict| {
        if let Some(place) = id.parse::<usize>().ok().and_then(|place| verdicts.get_mut(place)) {
            *place = verdict;
        }
    };
    for id in taken {
        set(id, Verdict::Taken);
    }
    for entry in failed {
        let error = CallError::of_entry(operation, &entry.code, entry.message.as_deref());
        let verdict = match entry {
            entry if is_fine(entry) => Verdict::Taken,
            entry if entry.sender_fault => Verdict::Refused(error.into()),
            _ => Verdict::Busy(error.into()),
        };
        set(&entry.id, verdict);
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn nothing_is_lost_and_no_request_is_too_large(sizes in prop::collection::vec(0_usize..300_000, 0..50)) {
            let batches = pack(sizes.clone(), |size| *size);
            for batch in &batches {
                prop_assert!((1..=MAX_ENTRIES).contains(&batch.len()));
                prop_assert!(batch.len() == 1 || batch.iter().sum::<usize>() <= MAX_BYTES);
            }
            prop_assert_eq!(batches.concat(), sizes);
        }
    }

    #[test]
    fn a_request_may_be_full_to_the_byte() {
        let packed = |sizes: &[usize]| pack(sizes.to_vec(), |size| *size).len();
        assert_eq!(packed(&[MAX_BYTES - 1, 1]), 1);
        assert_eq!(packed(&[MAX_BYTES, 1]), 2);
        assert_eq!((packed(&[1; 10]), packed(&[1; 11])), (1, 2));
    }

    #[test]
    fn an_entry_that_the_response_does_not_mention_is_not_taken() {
        let verdicts = verdicts("SendMessageBatch", 3, ["2", "7", "x"].into_iter(), &[], |_| false);
        assert!(matches!(&verdicts[..], [Verdict::Busy(_), Verdict::Busy(_), Verdict::Taken]));
    }
}
