//! A disk that reads at a fixed rate, implemented as a user-space file system (FUSE) over a
//! directory.
//!
//! The kernel can limit a device with `blkio.throttle`, but it does so in slices of 100 ms: an idle
//! disk with a limit of 20 MB/s reads its first 2 MB immediately, and then reads nothing until the
//! slice ends. This disk serves one request at a time, in the order of arrival, and each request
//! takes as long as its bytes take at this rate. Data is never cached, so every read goes to the
//! disk. Writes take no time, and neither do reads of the checksums that are stored next to the
//! blocks.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::files::{BATCH_FORGET, FORGET, Files, READ, REQUEST, Request, is_checksum};

/// The allowance for the turnaround of a busy disk: the time for a response to reach a reader and
/// for the reader's next request to arrive. A request that arrives within this time counts as if it
/// had arrived immediately.
const TURNAROUND: Duration = Duration::from_micros(500);
/// The maximum number of pending reads. If it were reached, other requests would have to wait. The
/// kernel sends fewer reads than this.
const READS: usize = 256;
/// The time within which the kernel must mount the disk.
const MOUNT: Duration = Duration::from_secs(20);

// From errno.h.
const EPERM: i32 = 1;
const EIO: i32 = 5;

/// The rate of a disk, and the number of bytes that it has read so far.
#[derive(Debug)]
pub(crate) struct Disk {
    rate: AtomicU64,
    read: AtomicU64,
}

impl Disk {
    /// Creates a disk whose files are in `folder`. Adds arguments to `command` that first mount the
    /// disk at `at`, visible only to that process, and then run the program named by the next
    /// argument. The disk ends with that process.
    pub(crate) fn mount(
        command: &mut Command,
        folder: &Path,
        at: &Path,
        rate: u64,
    ) -> Result<Arc<Self>> {
        let channel = OpenOptions::new().read(true).write(true).open("/dev/fuse");
        let channel = channel.context("no /dev/fuse: run this as root, on a kernel with FUSE")?;
        let mount = "mount -i -t fuse -o fd=0,rootmode=40000,user_id=0,group_id=0 disk \"$0\" \
                     && exec \"$@\" < /dev/null";
        command.stdin(channel.try_clone()?).args(["--mount", "sh", "-c", mount]).arg(at);
        ensure!(rate > 0, "a disk needs a rate");
        let disk = Arc::new(Self { rate: AtomicU64::new(rate), read: AtomicU64::new(0) });
        let files = Files::new(folder);
        let (head, reads) = mpsc::sync_channel(READS);
        let reply = channel.try_clone().context("no second descriptor")?;
        thread::spawn(move || serve_reads(&reply, &reads));
        let server = Server { disk: Arc::clone(&disk), channel, files, free: Instant::now(), head };
        thread::spawn(move || server.serve());
        Ok(disk)
    }

    /// Changes the number of bytes per second, starting with the next request.
    pub(crate) fn set_rate(&self, rate: u64) {
        self.rate.store(rate.max(1), Ordering::Relaxed);
    }

    /// Returns the number of bytes read so far.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }
}

struct Server {
    disk: Arc<Disk>,
    channel: File,
    files: Files,
    /// The time at which the disk will have served the requests that it accepted.
    free: Instant,
    /// Passes on the responses to reads, with the time at which each read is complete.
    head: mpsc::SyncSender<(Instant, Vec<u8>)>,
}

/// Sends responses when their reads are complete. The other thread can open files in the meantime.
fn serve_reads(mut channel: &File, reads: &mpsc::Receiver<(Instant, Vec<u8>)>) {
    while let Ok((at, response)) = reads.recv() {
        thread::sleep(at.saturating_duration_since(Instant::now()));
        let _ = channel.write(&response);
    }
}

impl Server {
    fn serve(mut self) {
        let (mut buffer, start) = (vec![0; REQUEST + 65_536], Instant::now());
        loop {
            match self.channel.read(&mut buffer) {
                Ok(length) => self.request(&Request(&buffer[..length])),
                // The disk is not mounted yet.
                Err(error) if error.raw_os_error() == Some(EPERM) && start.elapsed() < MOUNT => {
                    thread::sleep(Duration::from_millis(5));
                }
                // The request was interrupted after it arrived and before we read it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The disk was unmounted.
                Err(_) => return,
            }
        }
    }

    fn request(&mut self, request: &Request<'_>) {
        if [FORGET, BATCH_FORGET].contains(&request.operation()) {
            return;
        }
        let mut response = vec![0; 16];
        let mut at = None;
        let done = match request.operation() {
            READ => self.read(request, &mut response).map(|when| at = when),
            _ => self.files.respond(request, &mut response),
        };
        let error = done.map_or_else(|error| error.raw_os_error().unwrap_or(EIO), |()| 0);
        if error != 0 {
            response.truncate(16);
        }
        let length = response.len() as u32;
        response[..4].copy_from_slice(&length.to_le_bytes());
        response[4..8].copy_from_slice(&(-error).to_le_bytes());
        response[8..16].copy_from_slice(&request.unique().to_le_bytes());
        if let Some(at) = at {
            let _ = self.head.send((at, response));
            return;
        }
        // The process that sent the request may have ended.
        let _ = self.channel.write(&response);
    }

    fn read(
        &mut self,
        request: &Request<'_>,
        response: &mut Vec<u8>,
    ) -> io::Result<Option<Instant>> {
        let (handle, offset, size) = (request.u64(40), request.u64(48), request.u32(56) as usize);
        response.resize(16 + size.min(REQUEST), 0);
        let length = self.files.opened(handle)?.read_at(&mut response[16..], offset)?;
        response.truncate(16 + length);
        if is_checksum(self.files.path(request.node())?) {
            return Ok(None);
        }
        let rate = self.disk.rate.load(Ordering::Relaxed);
        let now = Instant::now();
        let start = self.free.max(now.checked_sub(TURNAROUND).unwrap_or(now));
        self.free = start + Duration::from_secs_f64(length as f64 / rate as f64);
        self.disk.read.fetch_add(length as u64, Ordering::Relaxed);
        Ok(Some(self.free))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn written_data_is_read_at_the_rate_of_the_disk_each_time() {
        let dir = tempfile::tempdir().expect("a folder");
        let (folder, at) = (dir.path().join("stored"), dir.path().join("disk"));
        fs::create_dir(&folder).and_then(|()| fs::create_dir(&at)).expect("folders");
        fs::write(dir.path().join("written"), vec![7; 1_000_000]).expect("a file");
        let mut command = Command::new("unshare");
        let disk = match Disk::mount(&mut command, &folder, &at, 10_000_000) {
            Ok(disk) => disk,
            Err(error) => return println!("SKIPPED: {error:#}"),
        };
        let script = "mkdir disk/a && cp written disk/a/b && mv disk/a disk/c && mv disk/c/b disk/c/d \
                      && cat disk/c/d disk/c/d | tail -c 1000000 | cmp - written \
                      && ls disk/c && rm disk/c/d && rmdir disk/c && test -z \"$(ls disk)\"";
        let start = Instant::now();
        let done = command.args(["sh", "-c", script]).current_dir(dir.path()).output();
        let done = done.expect("there is unshare");
        let stderr = String::from_utf8_lossy(&done.stderr);
        if stderr.contains("not permitted") {
            return println!("SKIPPED: {stderr}");
        }
        assert!(done.status.success() && done.stdout == b"d\n", "{stderr}");
        assert_eq!(disk.read_bytes(), 2_000_000);
        let took = start.elapsed();
        assert!(took >= Duration::from_millis(199), "{took:?}");
    }
}
