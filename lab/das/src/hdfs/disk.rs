//! A disk that reads at a fixed rate, implemented as a user-space file system (FUSE) over a
//! directory.
//!
//! The kernel can limit a device with `blkio.throttle`, but it does so in slices of 100 ms: an idle
//! disk with a limit of 20 MB/s reads its first 2 MB immediately, and then reads nothing until the
//! slice ends. This disk serves one request at a time, in the order of arrival, and each request
//! takes as long as its bytes take at this rate. Data is never cached, so every read goes to the
//! disk. Writes take no time, and neither do reads of the checksums that are stored next to the
//! blocks.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use nix::fcntl::OFlag;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// The allowance for the turnaround of a busy disk: the time for a response to reach a reader and
/// for the reader's next request to arrive. A request that arrives within this time counts as if it
/// had arrived immediately.
const TURNAROUND: Duration = Duration::from_micros(500);
/// The maximum number of pending reads. If it were reached, other requests would have to wait. The
/// kernel sends fewer reads than this.
const READS: usize = 256;
/// The maximum number of bytes that one request reads or writes.
const REQUEST: usize = 128 * 1024;

// From linux/fuse.h and errno.h.
const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const SETATTR: u32 = 4;
const MKNOD: u32 = 8;
const MKDIR: u32 = 9;
const UNLINK: u32 = 10;
const RMDIR: u32 = 11;
const RENAME: u32 = 12;
const OPEN: u32 = 14;
const READ: u32 = 15;
const WRITE: u32 = 16;
const STATFS: u32 = 17;
const RELEASE: u32 = 18;
const INIT: u32 = 26;
const OPENDIR: u32 = 27;
const READDIR: u32 = 28;
const BATCH_FORGET: u32 = 42;

const ROOT: u64 = 1;
const VERSION: u64 = (31 << 32) | 7;
const BIG_WRITES: u32 = 1 << 5;
const DIRECT_IO: u32 = 1;
const KEEP_CACHE: u32 = 2;
const SET_MODE: u32 = 1;
const SET_SIZE: u32 = 1 << 3;
const FOREVER: u64 = 1 << 30;
const ENOENT: i32 = 2;
const EIO: i32 = 5;
const ENOSYS: i32 = 38;

/// A mounted disk. It ends when this value is dropped and the processes that see it have ended.
#[derive(Debug)]
pub(crate) struct Disk {
    /// The mount namespace.
    namespace: File,
    pace: Arc<Pace>,
}

/// The rate of a disk, and the number of bytes that it has read so far.
#[derive(Debug)]
struct Pace {
    rate: AtomicU64,
    read: AtomicU64,
}

impl Disk {
    /// Mounts a disk whose files are in `folder` at `at`, in a namespace of its own.
    pub(crate) fn mount(folder: &Path, at: &Path, rate: u64) -> Result<Self> {
        ensure!(rate > 0, "a disk needs a rate");
        let channel = OpenOptions::new().read(true).write(true).open("/dev/fuse");
        let channel = channel.context("no /dev/fuse: run this as root, on a kernel with FUSE")?;
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", channel.as_raw_fd());
        let mounted = || -> io::Result<File> {
            unshare(CloneFlags::CLONE_NEWNS)?;
            let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
            mount(None::<&str>, "/", None::<&str>, private, None::<&str>)?;
            mount(Some("disk"), at, Some("fuse"), MsFlags::empty(), Some(&*options))?;
            File::open("/proc/thread-self/ns/mnt")
        };
        // The namespace is that of a thread, and the open file keeps it.
        let joined = thread::scope(|scope| scope.spawn(mounted).join());
        let namespace = joined.unwrap_or_else(|cause| std::panic::resume_unwind(cause));
        let namespace = namespace.context("cannot mount a disk; run this as root")?;
        let pace = Arc::new(Pace { rate: AtomicU64::new(rate), read: AtomicU64::new(0) });
        let (head, reads) = mpsc::sync_channel(READS);
        let reply = channel.try_clone().context("no second descriptor")?;
        thread::spawn(move || serve_reads(&reply, &reads));
        let (files, free) = (Files::new(folder)?, Instant::now());
        let server = Server { pace: Arc::clone(&pace), channel, files, free, head };
        thread::spawn(move || server.serve());
        Ok(Self { namespace, pace })
    }

    /// Returns the arguments with which `nsenter` runs a program that sees the disk.
    pub(crate) fn entered(&self) -> [String; 3] {
        let (process, file) = (std::process::id(), self.namespace.as_raw_fd());
        [format!("--mount=/proc/{process}/fd/{file}"), "--wd=.".into(), "--".into()]
    }

    /// Changes the number of bytes per second, starting with the next request.
    pub(crate) fn set_rate(&self, rate: u64) {
        self.pace.rate.store(rate.max(1), Ordering::Relaxed);
    }

    /// Returns the number of bytes read so far.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.pace.read.load(Ordering::Relaxed)
    }
}

struct Server {
    pace: Arc<Pace>,
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
        let mut buffer = vec![0; REQUEST + 65_536];
        loop {
            match self.channel.read(&mut buffer) {
                Ok(length) => self.request(&Request(&buffer[..length])),
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
        if self.files.is_checksum(request.node())? {
            return Ok(None);
        }
        let rate = self.pace.rate.load(Ordering::Relaxed);
        let now = Instant::now();
        let start = self.free.max(now.checked_sub(TURNAROUND).unwrap_or(now));
        self.free = start + Duration::from_secs_f64(length as f64 / rate as f64);
        self.pace.read.fetch_add(length as u64, Ordering::Relaxed);
        Ok(Some(self.free))
    }
}

/// The files by number. The number of a file is that of its inode, except that of the root.
struct Files {
    /// Descriptors (`O_PATH`) that stay valid if a file is renamed.
    nodes: HashMap<u64, File>,
    open: Vec<Option<File>>,
}

impl Files {
    fn new(root: &Path) -> io::Result<Self> {
        Ok(Self { nodes: HashMap::from([(ROOT, descriptor(root)?)]), open: Vec::new() })
    }

    /// Returns a path of a file for this process.
    fn path(&self, node: u64) -> io::Result<PathBuf> {
        let file = self.nodes.get(&node).ok_or_else(no_such)?;
        Ok(format!("/proc/self/fd/{}", file.as_raw_fd()).into())
    }

    fn opened(&self, handle: u64) -> io::Result<&File> {
        self.open.get(handle as usize).and_then(Option::as_ref).ok_or_else(no_such)
    }

    /// Whether a file contains checksums. Systems keep these in memory. They are 1 % of the bytes,
    /// but would need many separate requests.
    fn is_checksum(&self, node: u64) -> io::Result<bool> {
        let path = fs::read_link(self.path(node)?)?;
        Ok(path.extension().is_some_and(|extension| extension == "meta"))
    }

    /// Returns the path of the file that a request names, in the directory to which the request
    /// refers.
    fn child(&self, request: &Request<'_>, at: usize) -> io::Result<PathBuf> {
        Ok(self.path(request.node())?.join(request.names(at)[0]))
    }

    /// Responds to all requests except reads. The numbers are those of linux/fuse.h, and the
    /// offsets are those of its structures.
    fn respond(&mut self, request: &Request<'_>, out: &mut Vec<u8>) -> io::Result<()> {
        match request.operation() {
            LOOKUP => self.entry(&self.child(request, 40)?, out)?,
            GETATTR => attributes(&fs::metadata(self.path(request.node())?)?, out),
            SETATTR => self.set_attributes(request, out)?,
            MKNOD => {
                let path = self.child(request, 56)?;
                File::create_new(&path)?;
                self.entry(&path, out)?;
            }
            MKDIR => {
                let path = self.child(request, 48)?;
                fs::create_dir(&path)?;
                self.entry(&path, out)?;
            }
            UNLINK => fs::remove_file(self.child(request, 40)?)?,
            RMDIR => fs::remove_dir(self.child(request, 40)?)?,
            RENAME => {
                let to = self.path(request.u64(40))?.join(request.names(48)[1]);
                fs::rename(self.child(request, 48)?, to)?;
            }
            OPEN => self.open(request, out)?,
            WRITE => {
                let data = &request.0[80..][..request.u32(56) as usize];
                self.opened(request.u64(40))?.write_all_at(data, request.u64(48))?;
                words(out, &[data.len() as u64]);
            }
            // 64 GB, all free, in blocks of 4096; names of at most 255 bytes.
            STATFS => {
                let (blocks, inodes) = (1 << 24, 1 << 20);
                let sizes = [(255 << 32) | 4096, 4096];
                words(out, &[blocks, blocks, blocks, inodes, inodes, sizes[0], sizes[1], 0, 0, 0]);
            }
            RELEASE => self.open[request.u64(40) as usize] = None,
            INIT => {
                let (flags, write) = (u64::from(BIG_WRITES) << 32, (REQUEST as u64) << 32);
                words(out, &[VERSION, flags, write, 1, 0, 0, 0, 0]);
            }
            OPENDIR => words(out, &[0, 0]),
            READDIR => self.list(request, out)?,
            // After this response to FLUSH or FSYNC, the kernel no longer sends them. There is
            // nothing to flush, because written data is in the host's kernel.
            _ => return Err(io::Error::from_raw_os_error(ENOSYS)),
        }
        Ok(())
    }

    fn entry(&mut self, path: &Path, out: &mut Vec<u8>) -> io::Result<()> {
        let file = descriptor(path)?;
        let found = file.metadata()?;
        self.nodes.entry(found.ino()).or_insert(file);
        words(out, &[found.ino(), 0, FOREVER]);
        attributes(&found, out);
        Ok(())
    }

    fn set_attributes(&self, request: &Request<'_>, out: &mut Vec<u8>) -> io::Result<()> {
        let (path, valid) = (self.path(request.node())?, request.u32(40));
        if valid & SET_SIZE != 0 {
            OpenOptions::new().write(true).open(&path)?.set_len(request.u64(56))?;
        }
        if valid & SET_MODE != 0 {
            fs::set_permissions(&path, fs::Permissions::from_mode(request.u32(108) & 0o7777))?;
        }
        attributes(&fs::metadata(path)?, out);
        Ok(())
    }

    fn open(&mut self, request: &Request<'_>, out: &mut Vec<u8>) -> io::Result<()> {
        let flags = if self.is_checksum(request.node())? { KEEP_CACHE } else { DIRECT_IO };
        let file = OpenOptions::new().read(true).write(true).open(self.path(request.node())?)?;
        let unused = self.open.iter().position(Option::is_none);
        let handle = unused.unwrap_or_else(|| {
            self.open.push(None);
            self.open.len() - 1
        });
        self.open[handle] = Some(file);
        words(out, &[handle as u64, u64::from(flags)]);
        Ok(())
    }

    fn list(&self, request: &Request<'_>, out: &mut Vec<u8>) -> io::Result<()> {
        let (first, size) = (request.u64(48), request.u32(56) as usize);
        let mut names = Vec::new();
        for entry in fs::read_dir(self.path(request.node())?)? {
            names.push(entry?.file_name());
        }
        names.sort();
        for (index, name) in names.iter().enumerate().skip(first as usize) {
            let padded = name.len().next_multiple_of(8);
            if out.len() - 16 + 24 + padded > size {
                break;
            }
            words(out, &[index as u64 + 2, index as u64 + 1, name.len() as u64]);
            out.extend(name.as_bytes());
            out.resize(out.len() + padded - name.len(), 0);
        }
        Ok(())
    }
}

fn descriptor(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW;
    OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)
}

fn no_such() -> io::Error {
    io::Error::from_raw_os_error(ENOENT)
}

/// Writes numbers in the kernel's format. A pair of 32-bit fields is one number with the second
/// field in its high half.
fn words(out: &mut Vec<u8>, words: &[u64]) {
    words.iter().for_each(|word| out.extend(word.to_le_bytes()));
}

/// Writes a file's attributes and how long they are valid.
fn attributes(of: &Metadata, out: &mut Vec<u8>) {
    let time = of.mtime() as u64;
    words(out, &[FOREVER, 0, of.ino(), of.len(), of.blocks(), time, time, time, 0]);
    words(out, &[u64::from(of.mode()) << 32, of.nlink(), 0, 4096]);
}

/// A request: a header of 40 bytes, and the arguments of its operation.
struct Request<'a>(&'a [u8]);

impl<'a> Request<'a> {
    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.0[at..][..4].try_into().expect("four bytes"))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.0[at..][..8].try_into().expect("eight bytes"))
    }

    fn operation(&self) -> u32 {
        self.u32(4)
    }

    fn unique(&self) -> u64 {
        self.u64(8)
    }

    fn node(&self) -> u64 {
        self.u64(16)
    }

    /// Returns the names that start at or after an offset. Each name ends with a zero byte.
    fn names(&self, at: usize) -> Vec<&'a Path> {
        let names = self.0[at..].split(|byte| *byte == 0);
        names.map(|name| Path::new(OsStr::from_bytes(name))).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn written_data_is_read_at_the_rate_of_the_disk_each_time() {
        let dir = tempfile::tempdir().expect("a folder");
        let (folder, at) = (dir.path().join("stored"), dir.path().join("disk"));
        fs::create_dir(&folder).and_then(|()| fs::create_dir(&at)).expect("folders");
        fs::write(dir.path().join("written"), vec![7; 1_000_000]).expect("a file");
        let disk = match Disk::mount(&folder, &at, 10_000_000) {
            Ok(disk) => disk,
            Err(error) => return println!("SKIPPED: {error:#}"),
        };
        // A working folder that was opened outside of the namespace does not contain the disk.
        let script = "cd \"$0\" && mkdir disk/a && cp written disk/a/b && mv disk/a disk/c && mv disk/c/b disk/c/d \
                      && cat disk/c/d disk/c/d | tail -c 1000000 | cmp - written \
                      && ls disk/c && rm disk/c/d && rmdir disk/c && test -z \"$(ls disk)\"";
        let start = Instant::now();
        let mut command = Command::new("nsenter");
        command.args(disk.entered()).args(["sh", "-c", script]).arg(dir.path());
        let done = command.output().expect("there is nsenter");
        let stderr = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && done.stdout == b"d\n", "{stderr}");
        assert_eq!(disk.read_bytes(), 2_000_000);
        let took = start.elapsed();
        assert!(took >= Duration::from_millis(199), "{took:?}");
        // Nothing is mounted outside of the namespace.
        assert_eq!(fs::read_dir(&at).expect("a folder").count(), 0);
    }
}
