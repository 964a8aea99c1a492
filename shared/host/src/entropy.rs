use holdfast_core::ports::Entropy;

pub struct OsEntropy;

impl Entropy for OsEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        // Predictable ids and secrets would be worse than a crash.
        getrandom::fill(bytes).expect("the operating system provides random bytes");
    }
}
