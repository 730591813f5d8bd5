//! The files of a disk: answers the kernel's FUSE requests from a directory.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The maximum number of bytes that one request reads or writes.
pub(crate) const REQUEST: usize = 128 * 1024;

// From linux/fuse.h and errno.h.
const LOOKUP: u32 = 1;
pub(crate) const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const SETATTR: u32 = 4;
const MKNOD: u32 = 8;
const MKDIR: u32 = 9;
const UNLINK: u32 = 10;
const RMDIR: u32 = 11;
const RENAME: u32 = 12;
const OPEN: u32 = 14;
pub(crate) const READ: u32 = 15;
const WRITE: u32 = 16;
const STATFS: u32 = 17;
const RELEASE: u32 = 18;
const FSYNC: u32 = 20;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const OPENDIR: u32 = 27;
const READDIR: u32 = 28;
const RELEASEDIR: u32 = 29;
const FSYNCDIR: u32 = 30;
pub(crate) const BATCH_FORGET: u32 = 42;

const ROOT: u64 = 1;
const VERSION: u64 = (31 << 32) | 7;
const BIG_WRITES: u32 = 1 << 5;
const DIRECT_IO: u32 = 1;
const KEEP_CACHE: u32 = 2;
const SET_MODE: u32 = 1;
const SET_SIZE: u32 = 1 << 3;
const FOREVER: u64 = 1 << 30;
const ENOENT: i32 = 2;
const ENOSYS: i32 = 38;

/// The paths of files by number: node N has the path at index N - 1. The path of a deleted file is
/// empty.
pub(crate) struct Files {
    paths: Vec<PathBuf>,
    open: Vec<Option<File>>,
}

/// Whether a file contains checksums. Systems keep these in memory. They are 1 % of the bytes, but
/// would need many separate requests.
pub(crate) fn is_checksum(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "meta")
}

impl Files {
    pub(crate) fn new(root: &Path) -> Self {
        Self { paths: vec![root.into()], open: Vec::new() }
    }

    pub(crate) fn path(&self, node: u64) -> io::Result<&Path> {
        let path =
            self.paths.get(node.wrapping_sub(ROOT) as usize).filter(|path| path.as_os_str() != "");
        path.map(PathBuf::as_path).ok_or_else(no_such)
    }

    pub(crate) fn opened(&self, handle: u64) -> io::Result<&File> {
        self.open.get(handle as usize).and_then(Option::as_ref).ok_or_else(no_such)
    }

    /// Returns the path of the file that a request names, in the directory to which the request
    /// refers.
    fn child(&self, request: &Request<'_>, at: usize) -> io::Result<PathBuf> {
        Ok(self.path(request.node())?.join(request.names(at)[0]))
    }

    /// Responds to all requests except reads. The numbers are those of linux/fuse.h, and the
    /// offsets are those of its structures.
    pub(crate) fn respond(&mut self, request: &Request<'_>, out: &mut Vec<u8>) -> io::Result<()> {
        match request.operation() {
            LOOKUP => self.entry(self.child(request, 40)?, out)?,
            GETATTR => attributes(&fs::symlink_metadata(self.path(request.node())?)?, out),
            SETATTR => self.set_attributes(request, out)?,
            MKNOD => {
                let path = self.child(request, 56)?;
                File::create_new(&path)?;
                self.entry(path, out)?;
            }
            MKDIR => {
                let path = self.child(request, 48)?;
                fs::create_dir(&path)?;
                self.entry(path, out)?;
            }
            UNLINK => self.remove(&self.child(request, 40)?, |path| fs::remove_file(path))?,
            RMDIR => self.remove(&self.child(request, 40)?, |path| fs::remove_dir(path))?,
            RENAME => self.rename(request)?,
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
            // Written data is in the host's kernel, which outlives a DataNode, so there is nothing
            // to flush.
            FSYNC | FLUSH | RELEASEDIR | FSYNCDIR => {}
            INIT => {
                let (flags, write) = (u64::from(BIG_WRITES) << 32, (REQUEST as u64) << 32);
                words(out, &[VERSION, flags, write, 1, 0, 0, 0, 0]);
            }
            OPENDIR => words(out, &[0, 0]),
            READDIR => self.list(request, out)?,
            _ => return Err(io::Error::from_raw_os_error(ENOSYS)),
        }
        Ok(())
    }

    fn entry(&mut self, path: PathBuf, out: &mut Vec<u8>) -> io::Result<()> {
        let found = fs::symlink_metadata(&path)?;
        let known = self.paths.iter().position(|other| *other == path);
        let index = known.unwrap_or_else(|| {
            self.paths.push(path);
            self.paths.len() - 1
        });
        words(out, &[index as u64 + ROOT, 0, FOREVER]);
        attributes(&found, out);
        Ok(())
    }

    fn set_attributes(&self, request: &Request<'_>, out: &mut Vec<u8>) -> io::Result<()> {
        let (path, valid) = (self.path(request.node())?, request.u32(40));
        if valid & SET_SIZE != 0 {
            OpenOptions::new().write(true).open(path)?.set_len(request.u64(56))?;
        }
        if valid & SET_MODE != 0 {
            fs::set_permissions(path, fs::Permissions::from_mode(request.u32(108) & 0o7777))?;
        }
        attributes(&fs::symlink_metadata(path)?, out);
        Ok(())
    }

    fn remove(&mut self, path: &Path, how: fn(&Path) -> io::Result<()>) -> io::Result<()> {
        how(path)?;
        self.paths
            .iter_mut()
            .filter(|other| **other == path)
            .for_each(|gone| *gone = PathBuf::new());
        Ok(())
    }

    fn rename(&mut self, request: &Request<'_>) -> io::Result<()> {
        let names = request.names(48);
        let from = self.path(request.node())?.join(names[0]);
        let to = self.path(request.u64(40))?.join(names[1]);
        fs::rename(&from, &to)?;
        for path in &mut self.paths {
            if *path == to {
                *path = PathBuf::new();
            } else if let Ok(below) = path.strip_prefix(&from) {
                // Joining an empty path would append a slash.
                *path = if below.as_os_str() == "" { to.clone() } else { to.join(below) };
            }
        }
        Ok(())
    }

    fn open(&mut self, request: &Request<'_>, out: &mut Vec<u8>) -> io::Result<()> {
        let path = self.path(request.node())?;
        let flags = if is_checksum(path) { KEEP_CACHE } else { DIRECT_IO };
        let file = OpenOptions::new().read(true).write(true).open(path)?;
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
pub(crate) struct Request<'a>(pub(crate) &'a [u8]);

impl<'a> Request<'a> {
    pub(crate) fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.0[at..][..4].try_into().expect("four bytes"))
    }

    pub(crate) fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.0[at..][..8].try_into().expect("eight bytes"))
    }

    pub(crate) fn operation(&self) -> u32 {
        self.u32(4)
    }

    pub(crate) fn unique(&self) -> u64 {
        self.u64(8)
    }

    pub(crate) fn node(&self) -> u64 {
        self.u64(16)
    }

    /// Returns the names that start at or after an offset. Each name ends with a zero byte.
    fn names(&self, at: usize) -> Vec<&'a Path> {
        let names = self.0[at..].split(|byte| *byte == 0);
        names.map(|name| Path::new(OsStr::from_bytes(name))).collect()
    }
}
