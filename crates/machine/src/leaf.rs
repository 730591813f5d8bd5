//! A leaf on this machine: its processes, and their kernel counters during a measurement.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use procfs::process::FDTarget;

use super::{Counters, CpuGroup};

/// The maximum number of sampled threads of a leaf, over all its processes.
const THREADS_MAX: usize = 128;
/// The maximum number of samples: ten minutes at one sample every two milliseconds. Beyond this
/// number, the oldest samples are dropped.
const SAMPLES_MAX: usize = 300_000;
/// The number of samples after which the thread list is refreshed.
const REFRESH: u32 = 64;

/// The reason why a leaf cannot be sampled.
#[derive(Debug, thiserror::Error)]
pub enum LeafError {
    /// The leaf runs on another machine.
    #[error("{0} is not an address of this machine")]
    Elsewhere(SocketAddr),
    /// No process listens on the address.
    #[error("no process on this machine that this user may inspect listens on {0}")]
    NoProcess(SocketAddr),
    /// The system provides no process information.
    #[error("the processes of this machine cannot be inspected: {0}")]
    System(String),
}

/// The processes that listen on one address: a single one, or a parent and its workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalLeaf {
    /// The process IDs in ascending order. There is at least one.
    pub processes: Vec<i32>,
    /// The name of the first process.
    pub name: String,
}

impl LocalLeaf {
    /// Finds the processes that listen on an address of this machine.
    pub fn find(address: SocketAddr) -> Result<LocalLeaf, LeafError> {
        let system = |error: procfs::ProcError| LeafError::System(error.to_string());
        if !address.ip().is_loopback() && std::net::UdpSocket::bind((address.ip(), 0)).is_err() {
            return Err(LeafError::Elsewhere(address));
        }
        let listens = |entry: &procfs::net::TcpNetEntry| {
            entry.state == procfs::net::TcpState::Listen
                && entry.local_address.port() == address.port()
                && (entry.local_address.ip() == address.ip()
                    || entry.local_address.ip().is_unspecified())
        };
        let mut entries = procfs::net::tcp().map_err(system)?;
        entries.extend(procfs::net::tcp6().unwrap_or_default());
        let sockets: Vec<u64> =
            entries.into_iter().filter(listens).map(|entry| entry.inode).collect();
        let mut leaf = LocalLeaf { processes: Vec::new(), name: String::new() };
        for process in procfs::process::all_processes().map_err(system)? {
            // The process has since exited, or belongs to another user.
            let Ok(process) = process else { continue };
            let Ok(mut open) = process.fd() else { continue };
            let listening = |file: procfs::process::FDInfo| match file.target {
                FDTarget::Socket(inode) => sockets.contains(&inode),
                _ => false,
            };
            if open.any(|file| file.is_ok_and(listening)) {
                if leaf.processes.is_empty() {
                    leaf.name = process.stat().map(|stat| stat.comm).unwrap_or_default();
                }
                leaf.processes.push(process.pid);
            }
        }
        leaf.processes.sort_unstable();
        if leaf.processes.is_empty() { Err(LeafError::NoProcess(address)) } else { Ok(leaf) }
    }
}

/// Samples the counters of a leaf periodically, in its own thread.
#[derive(Debug)]
pub struct Sampler {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<SamplerReport>,
}

/// The samples that a sampler collected.
#[derive(Debug, Default)]
pub struct SamplerReport {
    /// Pairs of a time and the counters at that time, in chronological order.
    samples: VecDeque<(Instant, Counters)>,
}

impl Sampler {
    /// Starts to sample a leaf at regular intervals.
    pub fn start(leaf: &LocalLeaf, every: Duration) -> io::Result<Sampler> {
        let stop = Arc::new(AtomicBool::new(false));
        let (leaf, stopped) = (leaf.clone(), Arc::clone(&stop));
        let body = move || {
            let mut report = SamplerReport::default();
            let mut files = Files::open(&leaf);
            let mut round = 0;
            while !stopped.load(Ordering::Relaxed) {
                round += 1;
                if round % REFRESH == 0 {
                    files = Files::open(&leaf);
                }
                report.sample(&mut files);
                thread::park_timeout(every);
            }
            report
        };
        let thread = thread::Builder::new().name("leaf-counters".to_owned()).spawn(body)?;
        Ok(Sampler { stop, thread })
    }

    /// Stops sampling and returns the samples.
    pub fn finish(self) -> SamplerReport {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or_default()
    }
}

impl SamplerReport {
    fn sample(&mut self, files: &mut Files) {
        let now = Instant::now();
        let mut counters = files.read();
        if let Some((before, last)) = self.samples.back() {
            let since = now.duration_since(*before).as_nanos() as u64;
            counters.stopped_ns = last.stopped_ns + if files.stopped { since } else { 0 };
        }
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back((now, counters));
    }

    /// Returns the increase of the counters from the last sample before `start` to the first sample
    /// after `end`. `None` if either sample is missing.
    pub fn between(&self, start: Instant, end: Instant) -> Option<Counters> {
        let first = self.samples.partition_point(|(at, _)| *at <= start).checked_sub(1)?;
        let last = self.samples.partition_point(|(at, _)| *at < end);
        let ((_, before), (_, after)) = (self.samples.get(first)?, self.samples.get(last)?);
        Some(after.since(before))
    }
}

/// The open files of a leaf's processes and threads. The files stay open because opening a file
/// costs more than reading it.
#[derive(Debug)]
struct Files {
    processes: Vec<File>,
    threads: Vec<(File, File)>,
    throttling: Option<File>,
    text: String,
    /// Whether the last read found a thread stopped by a signal.
    stopped: bool,
}

impl Files {
    fn open(leaf: &LocalLeaf) -> Files {
        let folders = leaf.processes.iter().map(|process| format!("/proc/{process}/task"));
        let threads = folders.filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
        let open = |thread: fs::DirEntry| {
            let file = |name| File::open(thread.path().join(name)).ok();
            Some((file("schedstat")?, file("status")?))
        };
        let stat = |process| File::open(format!("/proc/{process}/stat")).ok();
        let processes = leaf.processes.iter().take(THREADS_MAX).filter_map(stat).collect();
        let group = leaf.processes.first().and_then(|process| CpuGroup::of(&process.to_string()));
        let throttling = group.and_then(|group| File::open(group.path.join("cpu.stat")).ok());
        let threads = threads.take(THREADS_MAX).filter_map(open).collect();
        Files { processes, threads, throttling, text: String::new(), stopped: false }
    }

    /// Reads all counters. A thread that has exited contributes nothing.
    fn read(&mut self) -> Counters {
        let Files { processes, threads, throttling, text, stopped } = self;
        let mut counters = Counters::default();
        *stopped = false;
        for stat in processes {
            counters.add_stat(read_again(stat, text));
        }
        for (schedstat, status) in threads {
            counters.add_schedstat(read_again(schedstat, text));
            *stopped |= counters.add_lines(read_again(status, text));
        }
        if let Some(file) = throttling {
            counters.add_lines(read_again(file, text));
        }
        counters
    }
}

/// Reads a file from its start. The result is empty if the file cannot be read.
fn read_again<'a>(file: &mut File, text: &'a mut String) -> &'a str {
    text.clear();
    let read = file.rewind().and_then(|()| file.take(1 << 16).read_to_string(text));
    if read.is_ok() { text } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn the_process_that_listens_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let leaf = LocalLeaf::find(listener.local_addr().unwrap()).unwrap();
        assert_eq!(leaf.processes, [std::process::id() as i32]);
        let unused = listener.local_addr().unwrap();
        drop(listener);
        assert!(matches!(LocalLeaf::find(unused), Err(LeafError::NoProcess(_))));
        let elsewhere = "192.0.2.1:80".parse().unwrap();
        assert!(matches!(LocalLeaf::find(elsewhere), Err(LeafError::Elsewhere(_))));
    }

    #[test]
    fn counters_are_compared_between_two_samples() {
        let leaf = LocalLeaf { processes: vec![std::process::id() as i32], name: String::new() };
        let mut report = SamplerReport::default();
        let mut files = Files::open(&leaf);
        assert_eq!(files.processes.len(), 1);
        // Reads only this thread, because the counts of other threads disappear when they exit.
        let own = |name| File::open(format!("/proc/thread-self/{name}")).unwrap();
        files.threads = vec![(own("schedstat"), own("status"))];
        report.sample(&mut files);
        let start = Instant::now();
        // The loop runs until the counter shows the CPU time, however often the thread is
        // preempted.
        let before = files.read().ran_ns;
        while files.read().ran_ns < before + 6_000_000 {}
        let end = Instant::now();
        assert_eq!(report.between(start, end), None, "no sample after it");
        report.sample(&mut files);
        let counted = report.between(start, end).unwrap();
        assert!(counted.ran_ns >= 6_000_000, "{counted:?}");
        assert_eq!((counted.stopped_ns, report.samples.len()), (0, 2));
        assert_eq!(report.between(start - Duration::from_secs(9), end), None);
    }
}
