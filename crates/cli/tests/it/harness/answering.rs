//! A server that responds immediately, and loads that are sent to it.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};

use super::serving::{http, serve};
use super::{CURTAIL, until};

/// A server that responds to every request with the same status. Its threads end with the test.
pub struct Server {
    pub url: String,
    pub answered: Arc<AtomicU32>,
}

impl Server {
    pub fn start(status: u16) -> Self {
        let answered = Arc::<AtomicU32>::default();
        let count = Arc::clone(&answered);
        let response = format!("HTTP/1.1 {status} \r\ncontent-length: 0\r\n\r\n");
        let address = serve(move |stream| {
            http(&stream, |stream| {
                count.fetch_add(1, Ordering::Relaxed);
                stream.write_all(response.as_bytes()).is_ok()
            });
        });
        Self { url: format!("http://{address}/"), answered }
    }

    pub fn load(&self, args: &[&str]) -> Command {
        let mut command = Command::new(CURTAIL);
        command.args(["load", &self.url, "--arrivals", "constant"]).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a load, and interrupts it after `answers` responses.
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
