use holdfast_core::ports::Entropy;

/// The operating system's randomness.
pub struct OsEntropy;

impl Entropy for OsEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        // Ids and secrets without randomness would be worse than no answer at all.
        getrandom::fill(bytes).expect("the operating system gives random bytes");
    }
}
