//! Replicas with slow URLs and poison requests, and clients that do not read.

use std::fmt;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;

use super::TIMEOUT;
use super::clients::{Counts, Tally};

use xtask::process::get;

/// The delay of slow URLs, which is longer than the attempt timeout.
const SLOW: Duration = Duration::from_millis(900);
/// The troublesome URLs, each with its number of simultaneous requests. The URLs are requested one
/// after the other.
const TROUBLES: [(&str, u32); 5] = [
    ("/odd/slow", 3),
    ("/odd/poison/500", 3),
    ("/odd/poison/501", 2),
    ("/odd/poison/505", 2),
    ("/odd/poison/head", 2),
];
const BETWEEN: Duration = Duration::from_millis(2_500);
const FINE_EVERY: Duration = Duration::from_millis(50);
/// The length of a body that no socket buffer can hold.
const BIG: usize = 64 << 20;

/// The results of the requests to the odd service.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Odd {
    /// Requests that every replica serves successfully.
    pub(super) fine: Counts,
    /// Slow and poison requests. They may fail, but every one gets a response.
    pub(super) troubles: Counts,
    /// The number of clients that did not read.
    pub(super) stuck: u64,
    /// The number of those clients that held a slot for longer than the timeout.
    pub(super) held: u64,
}

impl fmt::Display for Odd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fine, troubles, stuck, held } = self;
        write!(
            f,
            "{fine}; slow URLs and poison requests: {troubles}; {stuck} clients did not read, \
             {held} held a slot"
        )
    }
}

/// Starts a replica and returns its address. It serves until this program ends.
pub(super) fn replica() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream));
        }
    });
    Ok(address)
}

/// Serves one connection until it is closed.
fn serve(stream: TcpStream) -> std::io::Result<()> {
    let mut requests = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    loop {
        let (mut first, mut line) = (String::new(), String::new());
        if requests.read_line(&mut first)? == 0 {
            return Ok(());
        }
        while line != "\r\n" {
            line.clear();
            if requests.read_line(&mut line)? == 0 {
                return Ok(());
            }
        }
        let path = first.split(' ').nth(1).unwrap_or_default();
        let status = match path.rsplit('/').next().unwrap_or_default() {
            "big" => {
                write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {BIG}\r\n\r\n")?;
                for _ in 0..BIG >> 16 {
                    stream.write_all(&[b'x'; 1 << 16])?;
                }
                continue;
            }
            "head" => {
                let long = "x".repeat(256 << 10);
                write!(stream, "HTTP/1.1 200 OK\r\nx-long: {long}\r\ncontent-length: 0\r\n\r\n")?;
                continue;
            }
            "slow" => {
                std::thread::sleep(SLOW);
                "200"
            }
            status @ ("500" | "501" | "505") => status,
            _ => "200",
        };
        write!(stream, "HTTP/1.1 {status} X\r\ncontent-length: 2\r\n\r\nok")?;
    }
}

/// Sends requests until `end`.
pub(super) fn start(proxy: SocketAddr, admin: SocketAddr, end: Instant) -> JoinHandle<Odd> {
    std::thread::spawn(move || {
        let stuck = std::thread::spawn(move || do_not_read(proxy, admin, end));
        let (mut fine, mut troubles) = (Tally::default(), Tally::default());
        let mut next = Instant::now() + BETWEEN;
        let mut turns = TROUBLES.iter().cycle();
        while Instant::now() < end {
            fine.send(proxy, "/odd/fine".to_owned(), String::new(), None);
            if Instant::now() >= next {
                next += BETWEEN;
                let (path, times) = turns.next().expect("there are some");
                for _ in 0..*times {
                    troubles.send(proxy, (*path).to_owned(), String::new(), None);
                }
            }
            std::thread::sleep(FINE_EVERY);
        }
        let (stuck, held) = stuck.join().expect("it does not panic");
        Odd { fine: fine.finish(), troubles: troubles.finish(), stuck, held }
    })
}

/// Runs clients one after the other. Each requests a large body and does not read it. Returns the
/// number of clients, and the number that held the slot of their replica for longer than the
/// timeout.
fn do_not_read(proxy: SocketAddr, admin: SocketAddr, end: Instant) -> (u64, u64) {
    let (mut stuck, mut held) = (0, 0);
    let late = TIMEOUT + Duration::from_millis(1_500);
    while Instant::now() + late < end {
        let Ok(mut stream) = TcpStream::connect(proxy) else { continue };
        if stream.write_all(b"GET /big HTTP/1.1\r\nhost: soak\r\n\r\n").is_err() {
            continue;
        }
        std::thread::sleep(late);
        let status = get(admin, "/status").ok();
        let status: Value =
            status.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        let services = status["services"].as_array().into_iter().flatten();
        let busy = services.filter(|service| service["name"] == "big").any(|service| {
            service.pointer("/shards/0/servers/0/busy").and_then(Value::as_u64) != Some(0)
        });
        stuck += 1;
        held += u64::from(busy);
        drop(stream);
    }
    (stuck, held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_selects_the_response_of_a_replica() {
        let address = replica().expect("a port");
        for (path, status) in [("/health", 200), ("/odd/fine", 200), ("/odd/poison/505", 505)] {
            // This server keeps connections open, so the client has to close them.
            let mut stream = TcpStream::connect(address).expect("it listens");
            write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").expect("it reads");
            let mut line = String::new();
            BufReader::new(stream).read_line(&mut line).expect("a response");
            assert!(line.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {line}");
        }
    }
}
