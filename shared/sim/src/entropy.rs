use std::sync::{Mutex, PoisonError};

use holdfast_core::ports::Entropy;

/// The same bytes for the same seed, so that a run can be repeated. SplitMix64: well spread, and no secret.
pub struct SeededEntropy(Mutex<u64>);

impl SeededEntropy {
    #[must_use]
    pub fn new(seed: u64) -> SeededEntropy {
        SeededEntropy(Mutex::new(seed))
    }

    pub fn next_u64(&self) -> u64 {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_bytes() {
        let bytes_of = |seed| {
            let mut bytes = [0; 19];
            SeededEntropy::new(seed).fill(&mut bytes);
            bytes
        };
        assert_eq!(bytes_of(1), bytes_of(1));
        assert_ne!(bytes_of(1), bytes_of(2));
    }
}
