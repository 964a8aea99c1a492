//! Line feeds without a carriage return in the head of a request. hyper takes them for the end of a line; a proxy in front may not, and
//! then both see different requests.

/// Follows one head until its empty line.
#[derive(Default)]
pub(super) struct HeadScanner {
    /// How many bytes the current line has, without its end.
    line: usize,
    /// The last byte was a carriage return.
    after_return: bool,
    /// There was a line before: empty lines in front of a request are ignored, as hyper does.
    has_begun: bool,
    is_complete: bool,
}

impl HeadScanner {
    /// Replaces each bare line feed by a byte that is not allowed in a head, so that hyper answers 400.
    ///
    /// Checks the head that begins with these bytes. A head that a client sends before it has the response to the request before
    /// (pipelining) may arrive together with a body, and is not checked.
    pub(super) fn reject_bare_line_feeds(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            if self.is_complete {
                return;
            }
            match *byte {
                b'\n' if self.after_return => {
                    self.is_complete = self.line == 0 && self.has_begun;
                    self.has_begun |= self.line > 0;
                    self.line = 0;
                }
                b'\n' => *byte = 0,
                b'\r' => {}
                _ => self.line += 1,
            }
            self.after_return = *byte == b'\r';
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes in pieces of every size.
    fn scan(head: &str) -> String {
        let whole = pieces(head, head.len());
        for size in 1..head.len() {
            assert_eq!(pieces(head, size), whole, "in pieces of {size}");
        }
        whole
    }

    fn pieces(head: &str, size: usize) -> String {
        let (mut bytes, mut scanner) = (head.as_bytes().to_vec(), HeadScanner::default());
        bytes.chunks_mut(size.max(1)).for_each(|piece| scanner.reject_bare_line_feeds(piece));
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn only_bare_line_feeds_in_the_head_are_replaced() {
        for same in [
            "GET / HTTP/1.1\r\nhost: x\r\n\r\n",
            "\r\nGET / HTTP/1.1\r\na: b\r\n\r\na\nbody\n\n",
            "GET /\r\n",
        ] {
            assert_eq!(scan(same), same);
        }
        for bad in [
            "GET / HTTP/1.1\nhost: x\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: x\n\r\n",
            "GET / HTTP/1.1\r\nhost: x\r\n\n",
            "\r\n\nGET / HTTP/1.1\r\n\r\n",
        ] {
            assert_eq!(scan(bad).matches('\0').count(), 1, "{bad:?}");
        }
    }
}
