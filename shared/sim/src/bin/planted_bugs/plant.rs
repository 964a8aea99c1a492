//! Makes the copy with the planted faults, and runs it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{fs, io};

use crate::bugs::{BUGS, Bug, Change};

/// What the copy needs of the workspace.
const PARTS: [&str; 4] =
    ["shared/core/Cargo.toml", "shared/core/README.md", "shared/core/src", "shared/sim/src"];
const SIM_MANIFEST: &str = "shared/sim/Cargo.toml";
const DEFAULT_RUN: &str = "default-run = \"holdfast-sim\"\n";
/// Under a name of its own, because the build is in the same folder as this program.
const HUNT: &str = "autobins = false\n\n[[bin]]\nname = \"hunt\"\npath = \"src/bin/planted_bugs/main.rs\"\n";
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

    pub fn switch_off() {
        ACTIVE.store(usize::MAX, Ordering::Relaxed);
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
    let manifest = fs::read_to_string(workspace.join(SIM_MANIFEST))?.replace(DEFAULT_RUN, HUNT);
    write_changed(&copy.join(SIM_MANIFEST), manifest.as_bytes())?;
    // In the same folder and with the same flags as this program, so that the dependencies of both are compiled once.
    let build = ["rustc", "--quiet", "--profile", "simulation", "-p", "holdfast-sim", "--bin", "hunt"];
    let built = Command::new(env!("CARGO"))
        .args(build)
        .args(["--", "--cfg", "planted"])
        .current_dir(&copy)
        .env("CARGO_TARGET_DIR", &target)
        .status()?;
    if !built.success() {
        return Ok(ExitCode::FAILURE);
    }
    let status = Command::new(program.with_file_name("hunt")).args(std::env::args().skip(1)).status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The workspace's manifest, with two members, which have a version of their own: two packages that differ only in their folder would
/// have the same place in the build.
fn workspace_of_two(workspace: &Path) -> io::Result<String> {
    let manifest = fs::read_to_string(workspace.join("Cargo.toml"))?;
    let mut lines = Vec::new();
    for line in manifest.lines() {
        if line.starts_with("members =") {
            lines.push(r#"members = ["shared/core", "shared/sim"]"#);
        } else if line.starts_with("version =") {
            lines.push(r#"version = "0.0.0-planted""#);
        } else if !line.starts_with("default-members =") && !line.starts_with("exclude =") {
            lines.push(line);
        }
    }
    Ok(lines.join("\n"))
}

/// Every change, with the number of its fault.
fn changes() -> impl Iterator<Item = (usize, &'static Bug, &'static Change)> {
    let of_bug = |(number, bug): (usize, &'static Bug)| bug.changes.iter().map(move |one| (number, bug, one));
    BUGS.iter().enumerate().flat_map(of_bug)
}

fn plant_all(from: &Path, to: &Path) -> io::Result<()> {
    let files: BTreeSet<&str> = changes().map(|(_, _, change)| change.file).collect();
    for file in files {
        let mut code = fs::read_to_string(from.join(file))?;
        for (number, bug, change) in changes().filter(|(_, _, change)| change.file == file) {
            let places = code.matches(change.find).count();
            if places != 1 {
                let what = format!(
                    "\"{}\" is to be planted where {file} says `{}`, which stands there {places} times; \
                     change shared/sim/src/bin/planted_bugs/bugs.rs",
                    bug.name, change.find
                );
                return Err(io::Error::other(what));
            }
            let switch = format!("crate::planted::is({number})");
            code = code.replace(change.find, &change.plant.replace("PLANTED", &switch));
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
    let is_planted =
        from.ends_with("core/src/lib.rs") || changes().any(|(_, _, change)| from.ends_with(change.file));
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
