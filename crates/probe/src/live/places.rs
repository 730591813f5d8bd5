//! Locates the marks of an application in the target's files.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use procfs::process::{MMapPath, Process};

use super::{LiveError, Target};
use crate::app::{App, Mark};
use crate::binary::{Binary, BinaryError, Site};

/// A place in a process to which a probe can be attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The index of the mark.
    pub mark: usize,
    /// A path to the file that this process can open.
    pub path: PathBuf,
    /// The offset in the file, in bytes.
    pub offset: u64,
    pub process: u32,
}

/// The places of all marks, and the location of the number of unread bytes. `unread` contains the
/// argument's index plus 1 (0 if not set), and the offset from the pointer.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub places: Vec<Place>,
    pub unread: [u64; 2],
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

impl Places {
    /// Locates all marks. Processes that run a different program from the first process are
    /// skipped.
    pub(super) fn find(target: &Target, app: &App, allow_slow: bool) -> Result<Places, LiveError> {
        let mut found = Places::default();
        for (at, mark) in app.mark.iter().enumerate() {
            let files = files(target, mark)?;
            let (_, path) = &files[0];
            let bytes = read(path)?;
            let wrong = |why| LiveError::Binary { path: plain(path), why };
            let binary = Binary::parse(&bytes).map_err(wrong)?;
            let debug =
                binary.debug_file().map(|id| Path::new("/usr/lib/debug/.build-id").join(id));
            let debug = debug.and_then(|path| std::fs::read(path).ok());
            let debug = debug.as_deref().and_then(|bytes| Binary::parse(bytes).ok());
            let sites = sites(&binary, debug.as_ref(), mark).map_err(wrong)?;
            for site in &sites {
                let place = mark.place().to_owned();
                match site.is_emulated {
                    Some(true) => {}
                    Some(false) if !allow_slow => return Err(LiveError::Slow { place }),
                    Some(false) => found.warnings.push(format!("probes of {place} are slow")),
                    None => {
                        found.warnings.push(format!("the cost of probes of {place} is unknown"));
                    }
                }
            }
            for (process, path) in &files {
                let place = |site: &Site| {
                    let (path, offset) = (path.clone(), site.offset);
                    Place { mark: at, path, offset, process: *process }
                };
                found.places.extend(sites.iter().map(place));
            }
            if let Some(unread) = &mark.unread {
                let field = unread.field.as_deref().map(|name| {
                    binary.field(name).or_else(|error| debug.as_ref().ok_or(error)?.field(name))
                });
                match field.unwrap_or(Ok(unread.offset.unwrap_or(0))) {
                    Ok(offset) => found.unread = [u64::from(unread.argument) + 1, offset],
                    Err(why) => found.warnings.push(format!(
                        "{why}; until then, requests that share a read may be matched to the \
                         wrong packet"
                    )),
                }
            }
        }
        Ok(found)
    }
}

fn sites(
    binary: &Binary<'_>,
    debug: Option<&Binary<'_>>,
    mark: &Mark,
) -> Result<Vec<Site>, BinaryError> {
    if let Some(name) = &mark.tracepoint {
        return binary.tracepoint(name);
    }
    let name = mark.function.as_deref().unwrap_or_default();
    let here = binary.function(binary, name);
    let site = match debug {
        Some(debug) => here.or_else(|error| binary.function(debug, name).map_err(|_| error)),
        None => here,
    };
    Ok(vec![site?])
}

/// Returns, for each process, the file that contains a mark. The file of the first process that has
/// one is used, and processes with a different file are skipped.
fn files(target: &Target, mark: &Mark) -> Result<Vec<(u32, PathBuf)>, LiveError> {
    let mut files: Vec<(u32, PathBuf)> = Vec::new();
    let mut same = None;
    for &pid in &target.processes {
        let path = match &mark.library {
            None => Some(PathBuf::from(format!("/proc/{pid}/exe"))),
            Some(library) => loaded(pid, library),
        };
        let Some(path) = path else { continue };
        let Ok(file) = std::fs::metadata(&path) else { continue };
        let identity = (file.dev(), file.ino());
        if *same.get_or_insert(identity) == identity {
            files.push((pid, path));
        }
    }
    match (files.is_empty(), &mark.library) {
        (false, _) => Ok(files),
        (true, Some(library)) => Err(LiveError::NoLibrary(library.clone())),
        (true, None) => Err(LiveError::NoProcess(target.processes.first().copied().unwrap_or(0))),
    }
}

fn loaded(pid: u32, library: &str) -> Option<PathBuf> {
    let maps = Process::new(pid.cast_signed()).ok()?.maps().ok()?;
    let paths: BTreeSet<PathBuf> = maps
        .into_iter()
        .filter_map(|map| match map.pathname {
            MMapPath::Path(path) => Some(path),
            _ => None,
        })
        .collect();
    let ends = |path: &PathBuf| path.to_string_lossy().ends_with(library);
    let path = paths.into_iter().find(ends)?;
    Some(PathBuf::from(format!("/proc/{pid}/root{}", path.display())))
}

/// Resolves a link in /proc to a path that users recognize.
fn plain(path: &Path) -> PathBuf {
    std::fs::read_link(path).unwrap_or_else(|_| path.to_owned())
}

fn read(path: &Path) -> Result<Vec<u8>, LiveError> {
    std::fs::read(path).map_err(|why| LiveError::File { path: plain(path), why })
}
