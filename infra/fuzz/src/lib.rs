//! Runs a target with libFuzzer. What a target checks is beside the code that it checks, where a property test calls it too.

use std::path::Path;

#[doc(hidden)]
pub use libfuzzer_sys;

/// Fuzzes the module `$target`, which has `seeds` and `check`.
#[macro_export]
macro_rules! run {
    ($target:ident) => {
        $crate::libfuzzer_sys::fuzz_target!(init: $crate::plant(&$target::seeds()), |input: &[u8]| {
            $target::check(input)
        });
    };
}

/// Writes the seeds into the corpus, the folder that the program is started with, before libFuzzer reads it.
pub fn plant(seeds: &[&[u8]]) {
    let Some(corpus) = std::env::args().skip(1).find(|argument| Path::new(argument).is_dir()) else { return };
    for (number, seed) in seeds.iter().enumerate() {
        let path = Path::new(&corpus).join(format!("seed-{number}"));
        std::fs::write(&path, seed).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}
