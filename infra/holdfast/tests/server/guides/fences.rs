//! Reads the fenced code blocks of a page.

#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) tag: String,
    pub(crate) text: String,
    /// Line number of the opening fence, counted from 1.
    pub(crate) line: usize,
}

/// Returns the blocks in order. Panics if a fence is not closed.
pub(crate) fn of(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (number, line) in page.lines().enumerate() {
        match (open.take(), line.strip_prefix("```")) {
            (Some(block), Some(_)) => blocks.push(block),
            (Some(mut block), None) => {
                block.text += line;
                block.text.push('\n');
                open = Some(block);
            }
            (None, Some(tag)) => {
                open = Some(Block { tag: tag.to_owned(), text: String::new(), line: number + 1 });
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a fence is not closed: {open:?}");
    blocks
}

/// Returns the lines of the page with its blocks blanked out, so that lines keep their numbers.
pub(crate) fn prose(page: &str) -> Vec<&str> {
    let mut inside = false;
    let lines = page.lines().map(|line| {
        let fence = line.starts_with("```");
        inside ^= fence;
        if inside || fence { "" } else { line }
    });
    lines.collect()
}
