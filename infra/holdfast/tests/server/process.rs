//! A server process, which ends with its test.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver as Lines, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use holdfast_e2e::waiting::{SOON, until};
use holdfast_e2e::{Host, Receiver};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// For a start on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A process and its output.
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
                // The test may not read further lines.
                let _ = line.send(text);
            }
        });
        let stderr = Arc::new(Mutex::new(String::new()));
        let (log, mut err) = (Arc::clone(&stderr), child.stderr.take().unwrap());
        std::thread::spawn(move || {
            let mut part = [0; 8192];
            while let Ok(length) = err.read(&mut part)
                && length > 0
            {
                log.lock().unwrap().push_str(&String::from_utf8_lossy(&part[..length]));
            }
        });
        Process { child, stdout, stderr }
    }

    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// The next line on standard output.
    pub(crate) fn line(&self) -> String {
        self.stdout
            .recv_timeout(START_TIMEOUT)
            .unwrap_or_else(|_| panic!("no greeting; its log: {}", self.stderr()))
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// All further lines on standard output so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.stdout.try_iter().collect()
    }

    /// Waits for the process to end.
    pub(crate) async fn exit(&mut self, within: Duration) -> ExitStatus {
        let ended = until("the process ends", within, async || Ok(self.child.try_wait()?)).await;
        ended.unwrap_or_else(|error| panic!("{error}; its log: {}", self.stderr()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A running server.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) base: String,
    pub(crate) key: String,
    speed: u32,
}

impl Server {
    /// On a new port each time, because another process could take the old one.
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

    /// In strict mode, on a new port.
    pub(crate) fn serve(data: &Path, more: &[&str]) -> Server {
        Server::serve_as(&mut Command::new(env!("CARGO_BIN_EXE_holdfast")), data, more)
    }

    /// In strict mode, by a command that runs Holdfast with the arguments that are added to it.
    pub(crate) fn serve_as(command: &mut Command, data: &Path, more: &[&str]) -> Server {
        command.args(["serve", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()]).args(more);
        let process = Process::run(command);
        let (first, second) = (process.line(), process.line());
        let base = first.split(' ').find(|word| word.starts_with("http://")).expect("an address").to_owned();
        let file = data.join("operator-key");
        assert!(second.contains(file.to_str().unwrap()), "the key's file is not printed: {second}");
        let key = std::fs::read_to_string(file).unwrap().trim().to_owned();
        assert!(!first.contains(&key) && !second.contains(&key), "the key is printed");
        Server { process, base, key, speed: 1 }
    }

    /// A client of this server. The receiver outlives the server.
    pub(crate) fn host(&self, receiver: &Receiver) -> Host {
        Host::with(&self.base, &self.key, self.speed, receiver.clone()).unwrap()
    }

    /// Kills it without warning.
    pub(crate) fn kill(mut self) {
        self.process.child.kill().unwrap();
        self.process.child.wait().unwrap();
    }

    /// The head and the body of the response to a request without a key, on a new connection.
    pub(crate) async fn get_without_key(&self, path: &str) -> anyhow::Result<(String, String)> {
        get_on(TcpStream::connect(self.base.trim_start_matches("http://")).await?, path).await
    }

    pub(crate) fn pid(&self) -> Pid {
        self.process.pid()
    }

    pub(crate) fn terminate(&self) {
        kill_process(self.pid(), Signal::TERM).unwrap();
    }
}

/// The head and the body of the response to a request without a key.
pub(crate) async fn get_on(mut stream: TcpStream, path: &str) -> anyhow::Result<(String, String)> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    tokio::time::timeout(SOON, stream.read_to_string(&mut answer)).await??;
    let (head, body) = answer.split_once("\r\n\r\n").with_context(|| format!("no response: {answer}"))?;
    Ok((head.to_owned(), body.to_owned()))
}
