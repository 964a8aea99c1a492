//! The processes in which the emulator runs the functions.

use std::fs;

use anyhow::Result;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use super::Cloud;

impl Cloud {
    /// Kills all processes of the functions with this trigger. Returns how many there were.
    pub(super) fn kill_functions(&self, trigger: &str) -> Result<usize> {
        let wanted = format!("HOLDFAST_TRIGGER={trigger}");
        let mut killed = 0;
        for entry in fs::read_dir("/proc")? {
            let Ok(number) = entry?.file_name().to_string_lossy().parse::<i32>() else { continue };
            if !self.is_function(number) || !has_variable(number, &wanted) {
                continue;
            }
            let Some(process) = Pid::from_raw(number) else { continue };
            match kill_process(process, Signal::KILL) {
                Ok(()) => killed += 1,
                // It has ended already.
                Err(Errno::SRCH) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(killed)
    }

    fn is_function(&self, process: i32) -> bool {
        let program = fs::read_link(format!("/proc/{process}/exe"));
        let is_bootstrap = program.is_ok_and(|path| path.file_name().is_some_and(|name| name == "bootstrap"));
        is_bootstrap && parent(process) == Some(self.emulator)
    }
}

/// The fields of `stat` are counted from the end of the program's name, which may contain any character.
fn parent(process: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

fn has_variable(process: i32, wanted: &str) -> bool {
    let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
}
