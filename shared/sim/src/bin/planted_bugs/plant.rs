//! Makes the copy with the planted faults, and runs it.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{fs, io};

use crate::bugs::BUGS;

/// What the copy needs of the workspace.
const PARTS: [&str; 5] = [
    "shared/core/Cargo.toml",
    "shared/core/README.md",
    "shared/core/src",
    "shared/sim/Cargo.toml",
    "shared/sim/src",
];
const CORE: &str = "shared/core/src";

/// The switches. One fault at a time is on, for all threads.
const SWITCHES: &str = "
/// Faults that were planted into this copy.
pub mod planted {
    use std::sync::atomic::{AtomicUsize, Ordering};

    static ACTIVE: AtomicUsize = AtomicUsize::new(usize::MAX);

    pub fn switch_on(number: usize) {
        ACTIVE.store(number, Ordering::Relaxed);
    }

    pub(crate) fn is(number: usize) -> bool {
        ACTIVE.load(Ordering::Relaxed) == number
    }
}
";

pub(crate) fn plant_and_run() -> io::Result<ExitCode> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    // Beside the build of this program, which is in TARGET/PROFILE.
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(2).map_or_else(|| workspace.join("target"), Path::to_path_buf);
    let copy = target.join("planted");
    for part in PARTS {
        copy_changed(&workspace.join(part), &copy.join(part))?;
    }
    write_changed(&copy.join("Cargo.toml"), workspace_of_two(&workspace)?.as_bytes())?;
    write_changed(&copy.join("Cargo.lock"), &fs::read(workspace.join("Cargo.lock"))?)?;
    plant_all(&workspace.join(CORE), &copy.join(CORE))?;
    let run = ["run", "--quiet", "--profile", "simulation", "-p", "holdfast-sim", "--bin", "planted_bugs"];
    let status = Command::new(env!("CARGO"))
        .args(run)
        .current_dir(&copy)
        .env("CARGO_TARGET_DIR", target.join("planted-build"))
        .env("RUSTFLAGS", "--cfg planted")
        .status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The workspace's manifest, with two members.
fn workspace_of_two(workspace: &Path) -> io::Result<String> {
    let manifest = fs::read_to_string(workspace.join("Cargo.toml"))?;
    let mut lines = Vec::new();
    for line in manifest.lines() {
        if line.starts_with("members =") {
            lines.push(r#"members = ["shared/core", "shared/sim"]"#);
        } else if !line.starts_with("default-members =") && !line.starts_with("exclude =") {
            lines.push(line);
        }
    }
    Ok(lines.join("\n"))
}

fn plant_all(from: &Path, to: &Path) -> io::Result<()> {
    let mut files: Vec<&str> = BUGS.iter().map(|bug| bug.file).collect();
    files.sort_unstable();
    files.dedup();
    for file in files {
        let mut code = fs::read_to_string(from.join(file))?;
        for (number, bug) in BUGS.iter().enumerate().filter(|(_, bug)| bug.file == file) {
            let places = code.matches(bug.find).count();
            if places != 1 {
                let what = format!(
                    "\"{}\" is to be planted where {file} says `{}`, which stands there {places} times; \
                     change shared/sim/src/bin/planted_bugs/bugs.rs",
                    bug.name, bug.find
                );
                return Err(io::Error::other(what));
            }
            let switch = format!("crate::planted::is({number})");
            code = code.replace(bug.find, &bug.plant.replace("PLANTED", &switch));
        }
        write_changed(&to.join(file), code.as_bytes())?;
    }
    let library = fs::read_to_string(from.join("lib.rs"))?;
    write_changed(&to.join("lib.rs"), format!("{library}{SWITCHES}").as_bytes())
}

/// Files with planted faults are written later.
fn copy_changed(from: &Path, to: &Path) -> io::Result<()> {
    if from.is_dir() {
        for entry in fs::read_dir(from)? {
            let name = entry?.file_name();
            copy_changed(&from.join(&name), &to.join(&name))?;
        }
        return remove_others(from, to);
    }
    let is_planted = from.ends_with("core/src/lib.rs") || BUGS.iter().any(|bug| from.ends_with(bug.file));
    if is_planted { Ok(()) } else { write_changed(to, &fs::read(from)?) }
}

fn remove_others(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(to)? {
        let path: PathBuf = entry?.path();
        let is_gone = path.file_name().is_some_and(|name| !from.join(name).exists());
        if is_gone && path.is_dir() {
            fs::remove_dir_all(path)?;
        } else if is_gone {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// A file that stays the same keeps its time, so that it is not compiled again.
fn write_changed(file: &Path, content: &[u8]) -> io::Result<()> {
    if fs::read(file).is_ok_and(|found| found == content) {
        return Ok(());
    }
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(file, content)
}
