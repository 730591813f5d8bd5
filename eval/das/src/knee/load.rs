//! Clients that always have a request outstanding, and the levels that a throttler sets while they
//! run.
//!
//! A closed loop is appropriate here. The capacity of a server at a level can be measured only
//! while some job waits for a slot, and with enough clients some job waits at any level. No latency
//! is measured.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

/// The number of clients, which is higher than any level that is tried.
const CLIENTS: u32 = 40;
/// The interval at which the level is read.
const POLL: Duration = Duration::from_millis(50);
/// The final level is the most frequent one in this last part of a step, because a throttler
/// briefly tries other levels.
const LAST_S: f64 = 2.0;
const METRIC: &str = "curtail_stage_slots{";

/// Clients of a server. They end when this value and the server's stage are dropped.
pub(super) struct Load(Arc<Seen>);

#[derive(Default)]
struct Seen {
    /// Bytes of response bodies.
    bytes: AtomicU64,
    errors: AtomicU64,
    is_over: AtomicBool,
}

impl Load {
    /// Starts the clients. Each request has this `path`, followed by a unique number.
    pub(super) fn start(address: SocketAddr, path: &'static str) -> Self {
        let seen = Arc::new(Seen::default());
        for client in 0..CLIENTS {
            let seen = Arc::clone(&seen);
            thread::spawn(move || {
                while !seen.is_over.load(Ordering::Relaxed) {
                    let Err(_) = requests(address, &format!("{path}{client}-"), &seen);
                    seen.errors.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(Duration::from_millis(10));
                }
            });
        }
        Self(seen)
    }

    /// Measures bytes per second over a span that starts now.
    pub(super) fn throughput(&self, span: Duration) -> f64 {
        let bytes = || self.0.bytes.load(Ordering::Relaxed);
        let (start, before) = (Instant::now(), bytes());
        thread::sleep(span);
        (bytes() - before) as f64 / start.elapsed().as_secs_f64()
    }

    /// Returns an error if a request failed. A failing server does less than it could, so its level
    /// means nothing.
    pub(super) fn check(&self) -> Result<()> {
        let errors = self.0.errors.load(Ordering::Relaxed);
        ensure!(errors == 0, "{errors} requests failed");
        Ok(())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

/// Sends requests over one connection until one fails.
fn requests(address: SocketAddr, path: &str, seen: &Seen) -> Result<std::convert::Infallible> {
    let mut stream = BufReader::new(TcpStream::connect(address)?);
    let mut number = 0_u64;
    loop {
        let head = format!("GET {path}{number} HTTP/1.1\r\nhost: server\r\n\r\n");
        stream.get_mut().write_all(head.as_bytes())?;
        number += 1;
        let mut left = length(&mut stream)?;
        while left > 0 {
            let count = stream.fill_buf()?.len().min(left);
            ensure!(count > 0, "closed");
            stream.consume(count);
            seen.bytes.fetch_add(count as u64, Ordering::Relaxed);
            left -= count;
        }
    }
}

/// Reads the head of a response and returns the length of its body.
fn length(stream: &mut impl io::BufRead) -> Result<usize> {
    let (mut head, mut start) = (String::new(), 0);
    while !head[start..].trim().is_empty() || start == 0 {
        start = head.len();
        ensure!(stream.read_line(&mut head)? > 0, "closed");
    }
    ensure!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let fields = head.lines().filter_map(|line| line.split_once(':'));
    let mut lengths = fields.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    Ok(lengths.next().context("no length")?.1.trim().parse()?)
}

/// The time in seconds at which a level began, and the level.
pub(super) type Level = (f64, u32);

/// Monitors the metrics of a stage for this time. Returns its levels and the final level.
pub(super) fn levels(admin: SocketAddr, seconds: f64) -> Result<(Vec<Level>, u32)> {
    let (start, mut all, mut last) = (Instant::now(), Vec::new(), Vec::new());
    while start.elapsed().as_secs_f64() < seconds {
        let (at, level) = (start.elapsed().as_secs_f64(), level(admin)?);
        if at >= seconds - LAST_S {
            last.push(level);
        }
        all.push(((at * 100.0).round() / 100.0, level));
        thread::sleep(POLL);
    }
    all.dedup_by_key(|(_, level)| *level);
    Ok((all, most_frequent(&last)))
}

fn level(admin: SocketAddr) -> Result<u32> {
    let mut stream = TcpStream::connect(admin)?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: stage\r\nconnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let line = text.lines().find(|line| line.starts_with(METRIC));
    let value =
        line.and_then(|line| line.rsplit(' ').next()).context("its metrics contain no level")?;
    Ok(value.parse::<f64>()? as u32)
}

fn most_frequent(levels: &[u32]) -> u32 {
    let count = |level: u32| levels.iter().filter(|other| **other == level).count();
    levels.iter().copied().max_by_key(|level| count(*level)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_from_good_responses() {
        let read = |mut head: &[u8]| length(&mut head).ok();
        assert_eq!(read(b"HTTP/1.1 200 OK\r\nS: a:b\r\nContent-Length: 12\r\n\r\n"), Some(12));
        assert_eq!(read(b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n"), None);
        assert_eq!(read(b"HTTP/1.1 503 Busy\r\ncontent-length: 12\r\n\r\n"), None);
        assert_eq!(read(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"), None);
    }

    #[test]
    fn a_short_trial_does_not_count() {
        assert_eq!(most_frequent(&[7, 7, 8, 7, 6]), 7);
    }
}
