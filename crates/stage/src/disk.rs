//! Separates the two classes on a disk. Reads for duplicates are divided into pieces, and each
//! piece waits until no read for a primary is waiting.
//!
//! Source: document 003 §3.3 and §4. A read is divided into pieces. Each piece is a job at the
//! kernel's stage, which limits the number of concurrent reads. A duplicate can therefore delay a
//! primary by at most one piece. The threads that read also have the I/O priority of the class
//! (`ioprio_set`), which schedulers such as BFQ and mq-deadline respect. The queue, and not the
//! scheduler, provides the isolation. Under BFQ alone (the successor of the source's CFQ),
//! primaries wait for the idle slices of duplicates. Under a limit that is set by control groups
//! (`blkio.throttle`), both classes are served in order of arrival.
//!
//! Files are opened with `openat2` and `RESOLVE_BENEATH`. No name and no symbolic link therefore
//! leads out of the folder.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use curtail_kernel::stage::Priority;
use curtail_runtime::stage::{Overloaded, Stage};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

use crate::sys;

/// The maximum length of a piece, in bytes. Reading such a piece takes 3 ms on a disk that reads 40
/// MB/s.
pub const PIECE_BYTES: usize = 128 * 1024;
/// The maximum number of attempts to open a file. An attempt fails if a folder on the path of a
/// link with `..` is moved at the same time.
const ATTEMPTS: usize = 8;

/// A folder on a disk that is behind a stage.
#[derive(Clone, Debug)]
pub struct Disk {
    root: Arc<OwnedFd>,
    stage: Stage,
}

/// The reason why a read failed.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The queue is full.
    #[error(transparent)]
    Overloaded(#[from] Overloaded),
    /// The file cannot be read at this position, or the disk failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Disk {
    /// Creates a disk for the files in a folder. At most `reads` reads run concurrently, and at
    /// most `queue` reads of each class may wait.
    ///
    /// # Errors
    /// The folder cannot be opened, or the system does not support `openat2`.
    pub fn new(root: &Path, reads: u32, queue: u32) -> io::Result<Self> {
        let folder = OFlags::PATH | OFlags::DIRECTORY;
        let root = rustix::fs::open(root, folder | OFlags::CLOEXEC, Mode::empty())?;
        open_beneath(&root, ".", folder).map_err(explain)?;
        Ok(Self { root: Arc::new(root), stage: Stage::new(reads, queue) })
    }

    /// Opens a regular file in the folder or in one of its subfolders. Symbolic links may lead to
    /// such files, but not out of the folder.
    ///
    /// # Errors
    /// There is no such file, or the name leads out of the folder.
    pub async fn open(&self, name: &str) -> io::Result<Arc<File>> {
        let (root, name) = (Arc::clone(&self.root), name.to_owned());
        blocking(move || {
            // Without `NONBLOCK`, opening a pipe would wait for a writer.
            let file = open_beneath(&root, &name, OFlags::RDONLY | OFlags::NONBLOCK)?;
            let file = File::from(file);
            let regular = file.metadata()?.is_file();
            regular.then(|| Arc::new(file)).ok_or_else(|| io::ErrorKind::NotFound.into())
        })
        .await
    }

    /// Reads a piece of at most [`PIECE_BYTES`] when its turn comes.
    ///
    /// # Errors
    /// The queue is full, the file ends too early, or the disk fails.
    pub async fn read(
        &self,
        file: &Arc<File>,
        offset: u64,
        length: usize,
        priority: Priority,
    ) -> Result<Bytes, DiskError> {
        let permit = self.stage.enter_as(priority).await?;
        let file = Arc::clone(file);
        let read = blocking(move || {
            // Not every system supports I/O priorities, but the queue works without them.
            let _ = match priority {
                Priority::High => sys::io_priority(2, 0),
                Priority::Low => sys::io_priority(3, 0),
            };
            let mut bytes = BytesMut::zeroed(length.min(PIECE_BYTES));
            file.read_exact_at(&mut bytes, offset)?;
            Ok(bytes.freeze())
        });
        let bytes = read.await?;
        // The feedback is meant for clients, which see the job but not its pieces.
        let _ = permit.finish();
        Ok(bytes)
    }
}

/// Opens a path that does not lead out of a folder.
fn open_beneath(root: &OwnedFd, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let open = |_| openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), beneath);
    (0..ATTEMPTS)
        .map(open)
        .find(|opened| !matches!(opened, Err(Errno::AGAIN)))
        .unwrap_or(Err(Errno::AGAIN))
}

/// Explains why `openat2` cannot open the folder itself.
fn explain(error: Errno) -> io::Error {
    match error {
        Errno::NOSYS | Errno::PERM => io::Error::other(format!(
            "openat2, which keeps symbolic links inside the folder, is not available ({error}); \
             use Linux 5.6 or later, and allow openat2 if a container filters system calls"
        )),
        error => error.into(),
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn files_are_read_in_pieces_and_only_those_of_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let (inside, data) = (folder.path().join("in"), vec![7_u8; 3 * PIECE_BYTES]);
        std::fs::create_dir(&inside).unwrap();
        std::fs::write(inside.join("file"), &data).unwrap();
        std::fs::write(folder.path().join("secret"), "no").unwrap();
        let disk = Disk::new(&inside, 1, 10).unwrap();
        let pipe = std::process::Command::new("mkfifo").arg(inside.join("pipe")).status();
        assert!(pipe.expect("there is mkfifo").success());
        for name in ["pipe", "../secret", "/etc/passwd", "", ".", "absent", "a/../../secret"] {
            assert!(disk.open(name).await.is_err(), "{name}");
        }
        let file = disk.open("file").await.unwrap();
        let read = async |offset, length| disk.read(&file, offset, length, Priority::Low).await;
        assert_eq!(read(5, usize::MAX).await.unwrap().len(), PIECE_BYTES);
        assert_eq!(&read(0, 3).await.unwrap()[..], [7, 7, 7]);
        assert!(matches!(read(3 * PIECE_BYTES as u64 - 1, 2).await, Err(DiskError::Io(_))));
    }

    #[tokio::test]
    async fn links_lead_to_files_inside_the_folder_only() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("in");
        std::fs::create_dir_all(inside.join("sub")).unwrap();
        std::fs::write(inside.join("file"), "yes").unwrap();
        std::fs::write(folder.path().join("secret"), "no").unwrap();
        let absolute = inside.join("file");
        for (link, target) in [
            ("sub/up", Path::new("../file")),
            ("folder", Path::new("sub")),
            ("out", Path::new("../secret")),
            ("out-and-in", Path::new("../in/file")),
            ("outside", Path::new("..")),
            ("absolute", &absolute),
            ("process", Path::new("/proc/self/cwd")),
        ] {
            std::os::unix::fs::symlink(target, inside.join(link)).unwrap();
        }
        let disk = Disk::new(&inside, 1, 10).unwrap();
        for name in ["file", "sub/up", "folder/up", "sub/../file"] {
            let file = disk.open(name).await.expect(name);
            assert_eq!(
                &disk.read(&file, 0, 3, Priority::High).await.unwrap()[..],
                b"yes",
                "{name}"
            );
        }
        for name in ["out", "out-and-in", "outside/secret", "absolute", "process/Cargo.toml"] {
            assert!(disk.open(name).await.is_err(), "{name}");
        }
        let error = explain(Errno::NOSYS).to_string();
        assert!(error.contains("use Linux 5.6 or later"), "{error}");
        assert!(Disk::new(&inside.join("absent"), 1, 10).is_err());
    }
}
