//! A server process of a test, which does not outlive it.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver as Lines, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use holdfast_e2e::waiting::until;
use holdfast_e2e::{Host, Receiver};
use rustix::process::{Pid, Signal, kill_process};

/// For a start, on a machine that is busy with other tests.
const START: Duration = Duration::from_secs(60);

/// A process and what it says.
pub(crate) struct Process {
    child: Child,
    stdout: Lines<String>,
    stderr: Arc<Mutex<String>>,
}

impl Process {
    pub(crate) fn spawn(args: &[&str]) -> Process {
        Process::run(Command::new(env!("CARGO_BIN_EXE_holdfast")).args(args))
    }

    /// Any program.
    pub(crate) fn run(command: &mut Command) -> Process {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        let (line, stdout) = channel();
        let out = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            for text in BufReader::new(out).lines().map_while(Result::ok) {
                // Nobody listens any more once the test knows where the server is.
                let _ = line.send(text);
            }
        });
        let stderr = Arc::new(Mutex::new(String::new()));
        let (said, mut err) = (Arc::clone(&stderr), child.stderr.take().unwrap());
        std::thread::spawn(move || {
            let mut part = [0; 8192];
            while let Ok(length) = err.read(&mut part)
                && length > 0
            {
                said.lock().unwrap().push_str(&String::from_utf8_lossy(&part[..length]));
            }
        });
        Process { child, stdout, stderr }
    }

    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// The next line on standard output.
    pub(crate) fn line(&self) -> String {
        self.stdout.recv_timeout(START).unwrap_or_else(|_| panic!("no greeting; it says: {}", self.stderr()))
    }

    /// What else is on standard output by now.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.stdout.try_iter().collect()
    }

    /// How the process ended, if it does so in time.
    pub(crate) async fn exit(&mut self, within: Duration) -> ExitStatus {
        let ended = until("the process ends", within, async || Ok(self.child.try_wait()?)).await;
        ended.unwrap_or_else(|error| panic!("{error}; it says: {}", self.stderr()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server that runs.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) base: String,
    pub(crate) key: String,
    speed: u32,
}

impl Server {
    /// Each start gets a port of its own: nobody else can take the old one while nothing listens there.
    pub(crate) fn start(data: &Path, speed: u32, more: &[&str]) -> Server {
        let (data, speed_text) = (data.to_str().unwrap(), speed.to_string());
        let mut args = vec!["dev", "--listen", "127.0.0.1:0", "--data", data, "--speed", &speed_text];
        args.extend(more);
        let process = Process::spawn(&args);
        let (first, second) = (process.line(), process.line());
        let base = first.split(' ').find(|word| word.starts_with("http://")).expect("an address").to_owned();
        let key = second.strip_prefix("Key: ").expect("a key").to_owned();
        Server { process, base, key, speed }
    }

    /// In strict mode, on a port of its own.
    pub(crate) fn serve(data: &Path, more: &[&str]) -> Server {
        let mut args = vec!["serve", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()];
        args.extend(more);
        let process = Process::spawn(&args);
        let (first, second) = (process.line(), process.line());
        let base = first.split(' ').find(|word| word.starts_with("http://")).expect("an address").to_owned();
        let file = data.join("operator-key");
        assert!(second.contains(file.to_str().unwrap()), "it is not said where the key is: {second}");
        let key = std::fs::read_to_string(file).unwrap().trim().to_owned();
        assert!(!first.contains(&key) && !second.contains(&key), "the key is printed");
        Server { process, base, key, speed: 1 }
    }

    /// A client of this server, with the receiver that outlives it.
    pub(crate) fn host(&self, receiver: &Receiver) -> Host {
        Host::with(&self.base, &self.key, self.speed, receiver.clone()).unwrap()
    }

    /// Ends it in the middle of whatever it does.
    pub(crate) fn kill(mut self) {
        self.process.child.kill().unwrap();
        self.process.child.wait().unwrap();
    }

    pub(crate) fn terminate(&self) {
        let pid = Pid::from_child(&self.process.child);
        kill_process(pid, Signal::TERM).unwrap();
    }
}
