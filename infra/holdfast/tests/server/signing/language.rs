//! The guide's receivers, each with the official library of its language, started as the guide says.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::guides::{fences, top};
use crate::process::Process;

#[derive(Clone, Copy, Debug)]
pub(super) enum Language {
    Rust,
    Python,
    Node,
}

/// A running receiver with one secret.
pub(super) struct LibraryReceiver {
    pub(super) url: String,
    process: Process,
    _folder: tempfile::TempDir,
}

impl LibraryReceiver {
    pub(super) fn start(language: Language, secret: &str) -> LibraryReceiver {
        let folder = tempfile::tempdir().unwrap();
        let mut command = language.command(folder.path());
        let process = Process::run(command.env("WEBHOOK_SECRET", secret).env("PORT", "0"));
        let line = process.line();
        let url =
            line.strip_prefix("listening on ").unwrap_or_else(|| panic!("{language:?} printed: {line}"));
        LibraryReceiver { url: url.to_owned(), process, _folder: folder }
    }

    /// The new events that it handled since the last call.
    pub(super) fn handled(&self) -> Vec<String> {
        self.process.lines()
    }
}

impl Language {
    fn command(self, folder: &Path) -> Command {
        let source = self.shown();
        match self {
            Language::Rust => {
                let example = top().join("infra/holdfast/examples/receiver.rs");
                let built = std::fs::read_to_string(example).unwrap();
                assert!(built.ends_with(&source), "the guide's receiver differs from the example");
                Command::new(example_program())
            }
            Language::Python => {
                let file = folder.join("receiver.py");
                std::fs::write(&file, source).unwrap();
                let mut command = Command::new(Path::new(PYTHON_TOOLS.as_str()).join("python"));
                command.arg(file);
                command
            }
            Language::Node => {
                let file = folder.join("receiver.mjs");
                std::fs::write(&file, source).unwrap();
                std::os::unix::fs::symlink(NODE_PACKAGES.as_str(), folder.join("node_modules")).unwrap();
                let mut command = Command::new("node");
                command.arg(file);
                command
            }
        }
    }

    /// The source in the guide.
    fn shown(self) -> String {
        let tag = match self {
            Language::Rust => "rust",
            Language::Python => "python",
            Language::Node => "js",
        };
        let page = std::fs::read_to_string(top().join("infra/docs/subscribing.md")).unwrap();
        let mut blocks = fences::of(&page).into_iter().filter(|block| block.tag == tag);
        let block = blocks.next().unwrap_or_else(|| panic!("subscribing.md shows no receiver in {tag}"));
        assert!(blocks.next().is_none(), "subscribing.md has two blocks in {tag}: which is the receiver?");
        block.text
    }
}

/// `cargo test` builds it together with the tests of this package.
fn example_program() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_holdfast")).with_file_name("examples").join("receiver");
    assert!(program.exists(), "build it first: cargo build -p holdfast --example receiver");
    program
}

/// Pinned versions, installed on first use.
static PYTHON_TOOLS: LazyLock<String> = LazyLock::new(|| folder_printed_by("infra/aws/tools"));
static NODE_PACKAGES: LazyLock<String> = LazyLock::new(|| folder_printed_by("infra/receivers/packages"));

fn folder_printed_by(script: &str) -> String {
    let done = Command::new(top().join(script)).output().unwrap();
    assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}
