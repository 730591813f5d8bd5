//! Servers with scripted responses, on loopback, and loads that are sent to them. Their threads end
//! with the test.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::Signal;

use super::words::{Ran, run};
use super::{CURTAIL, signal, until};

/// Serves each connection on its own thread.
pub fn serve(each: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let each = each.clone();
            std::thread::spawn(move || each(stream));
        }
    });
    address
}

/// Calls `answer` for each HTTP/1 request until it returns false.
pub fn http(stream: &TcpStream, mut answer: impl FnMut(&mut &TcpStream) -> bool) {
    let mut lines = BufReader::new(stream.try_clone().expect("a handle")).lines();
    // A request ends with an empty line.
    while lines.any(|line| line.is_ok_and(|line| line.is_empty())) {
        if !answer(&mut &*stream) {
            return;
        }
    }
}

/// Serves HTTP/1 requests, each with `answer`. Returns the URL.
pub fn url(answer: impl FnMut(&mut &TcpStream) -> bool + Clone + Send + 'static) -> String {
    format!("http://{}/", serve(move |stream| http(&stream, answer.clone())))
}

/// Sends an empty response.
pub fn respond(mut stream: &TcpStream, status: &str) -> bool {
    let response = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
    stream.write_all(response.as_bytes()).is_ok()
}

/// Sends the same response to each HTTP/1 request.
pub fn saying(answer: impl Into<Vec<u8>>) -> SocketAddr {
    let answer = answer.into();
    serve(move |stream| http(&stream, |stream| stream.write_all(&answer).is_ok()))
}

/// A server that responds to every request with the same status.
pub struct Server {
    pub url: String,
    pub count: Arc<AtomicU32>,
}

impl Server {
    pub fn start(status: u16) -> Self {
        let answered = Arc::<AtomicU32>::default();
        let count = Arc::clone(&answered);
        let url = url(move |stream| {
            count.fetch_add(1, Ordering::Relaxed);
            respond(stream, &format!("{status} "))
        });
        Self { url, count: answered }
    }

    /// The number of responses so far.
    pub fn answered(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    /// A load with equal gaps. The arguments are the words of a line.
    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new(CURTAIL);
        command.args(["load", &self.url, "--arrivals", "constant"]).args(line.split_whitespace());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn load(&self, line: &str) -> Ran {
        run(&mut self.command(line))
    }

    /// Runs a load, and interrupts it after `answers` responses.
    pub fn interrupted_after(&self, answers: u32, line: &str) -> Ran {
        let child = self.command(line).spawn().expect("the binary starts");
        let before = self.answered();
        until("answers", || self.answered() >= before + answers);
        interrupted(child)
    }
}

/// Interrupts a process and waits for its end.
pub fn interrupted(child: Child) -> Ran {
    signal(&child, Signal::INT);
    child.wait_with_output().expect("it ends").into()
}
