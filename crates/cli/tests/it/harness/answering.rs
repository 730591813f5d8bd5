//! A server that answers at once, and loads that are sent to it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};

use super::{CURTAIL, until};

/// A server that gives every request the same status. Its threads end with the test.
pub struct Server {
    pub url: String,
    pub answered: Arc<AtomicU32>,
}

impl Server {
    pub fn start(status: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/", listener.local_addr().expect("its address"));
        let answered = Arc::<AtomicU32>::default();
        let count = Arc::clone(&answered);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let count = Arc::clone(&count);
                std::thread::spawn(move || {
                    let mut lines = BufReader::new(stream.try_clone().expect("a handle")).lines();
                    // A request ends with an empty line.
                    while lines.any(|line| line.is_ok_and(|line| line.is_empty())) {
                        let answer = format!("HTTP/1.1 {status} \r\ncontent-length: 0\r\n\r\n");
                        if (&stream).write_all(answer.as_bytes()).is_err() {
                            return;
                        }
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        Self { url, answered }
    }

    pub fn load(&self, args: &[&str]) -> Command {
        let mut command = Command::new(CURTAIL);
        command.args(["load", &self.url, "--arrivals", "constant"]).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a load, and interrupts it after so many answers.
    pub fn interrupted_after(&self, answers: u32, args: &[&str]) -> Output {
        let child = self.load(args).spawn().expect("the binary starts");
        let before = self.answered.load(Ordering::Relaxed);
        until("answers", || self.answered.load(Ordering::Relaxed) >= before + answers);
        kill_process(Pid::from_child(&child), Signal::INT).expect("a child of ours");
        child.wait_with_output().expect("it ends")
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
