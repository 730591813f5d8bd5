//! Servers with scripted responses, on loopback. Their threads end with the test.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};

use super::CURTAIL;

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

/// Sends the same response to each HTTP/1 request.
pub fn saying(answer: impl Into<Vec<u8>>) -> SocketAddr {
    let answer = answer.into();
    serve(move |stream| http(&stream, |stream| stream.write_all(&answer).is_ok()))
}

/// Runs curtail with the words of a line, followed by arguments that may contain spaces.
pub fn curtail(line: &str, more: &[&str]) -> Output {
    let mut command = Command::new(CURTAIL);
    command.args(line.split_whitespace()).args(more);
    command.stdin(Stdio::null()).output().expect("the binary starts")
}
