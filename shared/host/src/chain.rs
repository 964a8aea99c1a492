use std::error::Error;

/// Returns an error and its sources in one line, for the log.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        line.push_str(": ");
        line.push_str(&error.to_string());
        source = error.source();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the key cannot be read")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn the_sources_follow_the_error() {
        let error = Outer(std::io::Error::other("connection refused"));
        assert_eq!(chain(&error), "the key cannot be read: connection refused");
    }
}
