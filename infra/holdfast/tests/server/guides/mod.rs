//! What the guides show is what happens: every block of every page is run.

pub(crate) mod fences;
mod links;
mod shell;
mod shown;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use futures_util::future::join_all;

use fences::Block;
use shell::Shell;
use tokio::runtime::Handle;

/// Their commands need an account at AWS.
const NOT_RUN: [&str; 3] = ["costs.md", "deploy.md", "runbook.md"];
/// The receivers in these languages are run by the tests of signing, and are on this page alone.
const RECEIVERS: ([&str; 3], &str) = (["rust", "python", "js"], "subscribing.md");

/// The top folder of the repository.
pub(crate) fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_guides_works() {
    let pages = links::pages(&top().join("infra/docs"));
    let run = pages.into_iter().filter(|page| !NOT_RUN.iter().any(|name| page.ends_with(name)));
    // Commands block a thread, so each page has its own.
    let runtime = Handle::current();
    let walks = run.map(|page| {
        let runtime = runtime.clone();
        tokio::task::spawn_blocking(move || runtime.block_on(walk(&page)))
    });
    let faults: Vec<String> = join_all(walks).await.into_iter().filter_map(|walk| walk.unwrap()).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

/// What is wrong with a page, if anything.
async fn walk(page: &Path) -> Option<String> {
    let text = fs::read_to_string(page).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut shell = Shell::start(folder.path());
    let blocks = fences::of(&text);
    for (index, block) in blocks.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| blocks[before].tag.as_str());
        if let Err(fault) = step(&mut shell, page, block, before, blocks.get(index + 1)).await {
            return Some(format!("{}:{}: {fault:#}", page.display(), block.line));
        }
    }
    None
}

async fn step(
    shell: &mut Shell,
    page: &Path,
    block: &Block,
    before: Option<&str>,
    next: Option<&Block>,
) -> Result<()> {
    let (languages, receivers_page) = RECEIVERS;
    match block.tag.as_str() {
        "sh" => {
            let shown = next.filter(|next| next.tag == "json").map(|next| serde_json::from_str(&next.text));
            let shown = shown.transpose().context("what is shown behind it is not JSON")?;
            shell.run(block, shown.as_ref()).await
        }
        "json" => {
            ensure!(before == Some("sh"), "shows an answer, but to no command");
            Ok(())
        }
        tag => {
            ensure!(languages.contains(&tag) && page.ends_with(receivers_page), "{tag:?}: no test runs this");
            Ok(())
        }
    }
}
