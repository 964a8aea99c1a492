//! Runs every command in the guides and compares the answers with the ones that the guides show.

pub(crate) mod fences;
mod links;
mod shell;
mod shown;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use fences::Block;
use shell::Shell;

/// The commands in these pages need an AWS account, or take an hour.
const NOT_RUN: [&str; 7] =
    ["capacity.md", "costs.md", "deploy.md", "performance.md", "production.md", "restore.md", "runbook.md"];
/// The signing tests run the receivers in these languages, and only this page may contain them.
const RECEIVERS: ([&str; 3], &str) = (["rust", "python", "js"], "subscribing.md");

/// The root folder of the repository.
pub(crate) fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Follows the guides as a reader does: one after the other, in the order of the README, on one machine.
#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_guides_works() {
    let folder = tempfile::tempdir().unwrap();
    let mut shell = Shell::new(folder.path());
    let mut errors = Vec::new();
    for page in links::guides_in_readme_order() {
        if NOT_RUN.iter().any(|name| page.ends_with(name)) {
            continue;
        }
        if let Err(error) = run_page(&mut shell, &page).await {
            errors.push(format!("{error:#}"));
        }
    }
    assert!(errors.is_empty(), "{}", errors.join("\n\n"));
}

/// A section of the README, without its heading.
fn readme_section(heading: &str) -> String {
    let readme = fs::read_to_string(top().join("README.md")).unwrap();
    let (_, rest) = readme.split_once(&format!("\n## {heading}\n")).expect("the section exists");
    rest.split("\n## ").next().unwrap_or(rest).to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_of_the_readme_works() {
    let folder = tempfile::tempdir().unwrap();
    let section = readme_section("A retry in nine seconds");
    run_blocks(&mut Shell::new(folder.path()), Path::new("README.md"), &section).await.unwrap();
}

#[test]
fn the_promises_of_the_readme_name_checks_of_the_simulation() {
    let described = fs::read_to_string(top().join("shared/sim/README.md")).unwrap();
    let promises = readme_section("What it promises");
    let named: Vec<&str> = promises.split('"').skip(1).step_by(2).collect();
    assert!(named.len() >= 5, "{named:?}");
    for check in named {
        assert!(described.contains(check), "shared/sim/README.md does not have {check:?}");
    }
}

async fn run_page(shell: &mut Shell, page: &Path) -> Result<()> {
    run_blocks(shell, page, &fs::read_to_string(page)?).await
}

async fn run_blocks(shell: &mut Shell, page: &Path, text: &str) -> Result<()> {
    let blocks = fences::of(text);
    shell.begin_page();
    for (index, block) in blocks.iter().enumerate() {
        let previous_tag = index.checked_sub(1).map(|previous| blocks[previous].tag.as_str());
        let result = run_block(shell, page, block, previous_tag, blocks.get(index + 1)).await;
        result.with_context(|| format!("{}:{}", page.display(), block.line))?;
    }
    Ok(())
}

async fn run_block(
    shell: &mut Shell,
    page: &Path,
    block: &Block,
    previous_tag: Option<&str>,
    next: Option<&Block>,
) -> Result<()> {
    let (languages, receivers_page) = RECEIVERS;
    match block.tag.as_str() {
        "sh" => {
            let shown = next.filter(|next| next.tag == "json").map(|next| serde_json::from_str(&next.text));
            let shown = shown.transpose().context("the answer shown below the command is not JSON")?;
            shell.run(block, shown.as_ref()).await
        }
        "json" => {
            ensure!(previous_tag == Some("sh"), "the answer does not follow a command");
            Ok(())
        }
        tag => {
            ensure!(
                languages.contains(&tag) && page.ends_with(receivers_page),
                "no test runs blocks tagged {tag:?} in this page"
            );
            Ok(())
        }
    }
}
