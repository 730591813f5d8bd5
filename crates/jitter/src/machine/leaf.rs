//! A leaf on this machine: which process it is, and what the kernel counts for it while it is measured.

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

/// Most threads of a leaf that are looked at, over all its processes.
const THREADS_MAX: usize = 128;
/// Looks that are kept: ten minutes of every two milliseconds. Older ones are forgotten.
const LOOKS_MAX: usize = 300_000;
/// After so many looks, threads that have come since are found.
const REFRESH: u32 = 64;

/// Why a leaf is not watched.
#[derive(Debug, thiserror::Error)]
pub enum LeafError {
    /// It is elsewhere.
    #[error("{0} is not an address of this machine")]
    Elsewhere(SocketAddr),
    /// No process is found.
    #[error("no process of this machine that may be looked at listens on {0}")]
    NoProcess(SocketAddr),
    /// The system does not say.
    #[error("the processes of this machine cannot be looked at: {0}")]
    System(String),
}

/// The processes that listen on one address: one, or a parent and its workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalLeaf {
    /// Their numbers, ascending; at least one.
    pub processes: Vec<i32>,
    /// The name of the first.
    pub name: String,
}

impl LocalLeaf {
    /// The process that listens on an address of this machine.
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
            // One that ended meanwhile, or is another user's.
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

/// Looks at the counters of a leaf again and again, in a thread of its own.
#[derive(Debug)]
pub struct Sampler {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<SamplerReport>,
}

/// What a sampler saw.
#[derive(Debug, Default)]
pub struct SamplerReport {
    /// When, and the counters then; in order.
    looks: VecDeque<(Instant, Counters)>,
}

impl Sampler {
    /// Starts to look at a leaf every so often.
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
                report.look(&mut files);
                thread::park_timeout(every);
            }
            report
        };
        let thread = thread::Builder::new().name("leaf-counters".to_owned()).spawn(body)?;
        Ok(Sampler { stop, thread })
    }

    /// Ends, and returns what was seen.
    pub fn finish(self) -> SamplerReport {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or_default()
    }
}

impl SamplerReport {
    fn look(&mut self, files: &mut Files) {
        let now = Instant::now();
        let mut counters = files.read();
        if let Some((before, last)) = self.looks.back() {
            let since = now.duration_since(*before).as_nanos() as u64;
            counters.stopped_ns = last.stopped_ns + if files.stopped { since } else { 0 };
        }
        if self.looks.len() == LOOKS_MAX {
            self.looks.pop_front();
        }
        self.looks.push_back((now, counters));
    }

    /// What was counted from the last look before `start` to the first one after `end`; none if there
    /// is none of either.
    pub fn between(&self, start: Instant, end: Instant) -> Option<Counters> {
        let first = self.looks.partition_point(|(at, _)| *at <= start).checked_sub(1)?;
        let last = self.looks.partition_point(|(at, _)| *at < end);
        let ((_, before), (_, after)) = (self.looks.get(first)?, self.looks.get(last)?);
        Some(after.since(before))
    }
}

/// The open files of a leaf's processes and threads: opening them costs more than reading.
#[derive(Debug)]
struct Files {
    processes: Vec<File>,
    threads: Vec<(File, File)>,
    throttling: Option<File>,
    text: String,
    /// A thread was found stopped by a signal when they were read last.
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

    /// What the counters say. A thread that has ended says nothing.
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

/// Empty where it cannot be read.
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
    fn what_a_process_does_is_counted_between_two_looks() {
        let leaf = LocalLeaf { processes: vec![std::process::id() as i32], name: String::new() };
        let mut report = SamplerReport::default();
        let mut files = Files::open(&leaf);
        assert_eq!(files.processes.len(), 1);
        // Of this thread alone: others end, and take their counts with them.
        let own = |name| File::open(format!("/proc/thread-self/{name}")).unwrap();
        files.threads = vec![(own("schedstat"), own("status"))];
        report.look(&mut files);
        let start = Instant::now();
        // Work for the counter to see, however long others have the processor.
        let before = files.read().ran_ns;
        while files.read().ran_ns < before + 6_000_000 {}
        let end = Instant::now();
        assert_eq!(report.between(start, end), None, "nobody looked after it");
        report.look(&mut files);
        let counted = report.between(start, end).unwrap();
        assert!(counted.ran_ns >= 6_000_000, "{counted:?}");
        assert_eq!((counted.stopped_ns, report.looks.len()), (0, 2));
        assert_eq!(report.between(start - Duration::from_secs(9), end), None);
    }
}
