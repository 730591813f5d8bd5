//! The manifest, which describes an index and its files.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use xxhash_rust::xxh64::Xxh64;

use super::IndexError;

/// The version of the layout, of the schema and of the tokenization. Increase it when one of them
/// changes, so that old indexes are rebuilt.
pub(super) const FORMAT: u32 = 2;

/// Name of the manifest.
pub(super) const MANIFEST: &str = "manifest.json";

/// Name of the file that contains the document frequencies.
pub(super) const TERMS: &str = "terms.fst";

/// Maximum size of a manifest. With [`super::MAX_SHARDS`] shards, a manifest takes about 2 MiB.
const MAX_MANIFEST_BYTES: u64 = 16 << 20;

/// A file of the index.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FileRecord {
    /// Name of the file within its folder.
    pub(super) name: String,
    pub(super) bytes: u64,
    /// xxHash in hexadecimal.
    hash: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ShardRecord {
    /// Number of documents.
    pub(crate) documents: u64,
    /// Sorted by name.
    pub(super) files: Vec<FileRecord>,
}

/// The description of an index.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// The version of the layout.
    pub(super) format: u32,
    /// Fingerprint of the corpus.
    pub(super) fingerprint: String,
    pub(super) source: String,
    /// Number of documents in all shards.
    pub(super) documents: u64,
    pub(super) title_tokens: u64,
    pub(super) body_tokens: u64,
    /// Number of distinct words, counted per field.
    pub(super) terms: u64,
    /// The document frequencies of all words.
    pub(super) terms_file: FileRecord,
    pub(crate) shards: Vec<ShardRecord>,
}

impl Manifest {
    pub(super) fn shard_count(&self) -> u32 {
        self.shards.len() as u32 // `check` bounds it
    }

    /// Reads the manifest of an index and checks that it is consistent.
    pub(crate) fn read(directory: &Path) -> Result<Self, IndexError> {
        let path = directory.join(MANIFEST);
        let read = File::open(&path).and_then(|file| {
            let mut bytes = Vec::new();
            file.take(MAX_MANIFEST_BYTES).read_to_end(&mut bytes).map(|_| bytes)
        });
        let bytes = match read {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(IndexError::NotAnIndex { directory: directory.to_owned() });
            }
            read => read.map_err(IndexError::io(&path))?,
        };
        let manifest = serde_json::from_slice(&bytes).map_err(|error| error.to_string());
        let checked = manifest.and_then(|manifest: Value| {
            // The version is checked first, because another version may have different fields.
            if manifest["format"] != FORMAT {
                let found = &manifest["format"];
                return Err(format!("format {found}, but this version reads format {FORMAT}"));
            }
            let manifest: Self =
                serde_json::from_value(manifest).map_err(|error| error.to_string())?;
            manifest.check().map(|()| manifest)
        });
        checked.map_err(|why| IndexError::damaged(&path)(format!("damaged manifest: {why}")))
    }

    /// Writes the manifest and waits until it is on disk.
    pub(super) fn write(&self, directory: &Path) -> Result<(), IndexError> {
        let path = directory.join(MANIFEST);
        let mut json = serde_json::to_vec_pretty(self).map_err(IndexError::damaged(&path))?;
        json.push(b'\n');
        File::create(&path)
            .and_then(|mut file| file.write_all(&json).and_then(|()| file.sync_all()))
            .map_err(IndexError::io(&path))
    }

    /// Checks the file that contains the document frequencies.
    pub(crate) fn verify_terms(&self, directory: &Path) -> Result<PathBuf, IndexError> {
        self.terms_file.verify(directory)
    }

    /// Checks that a shard exists and that its files are unchanged.
    pub(crate) fn verify_shard(&self, directory: &Path, shard: u32) -> Result<PathBuf, IndexError> {
        let record = self.shards.get(shard as usize);
        let record = record.ok_or(IndexError::NoSuchShard { shard, shards: self.shard_count() })?;
        let folder = shard_folder(directory, shard);
        for file in &record.files {
            file.verify(&folder)?;
        }
        Ok(folder)
    }

    fn check(&self) -> Result<(), String> {
        let shards = self.shards.len();
        if shards == 0 || shards > super::MAX_SHARDS as usize {
            return Err(format!("{shards} shards"));
        }
        let expected = |shard: u64| (self.documents + shards as u64 - 1 - shard) / shards as u64;
        for (number, shard) in (0..).zip(&self.shards) {
            if shard.documents == 0 || shard.documents != expected(number) {
                let (has, all) = (shard.documents, self.documents);
                return Err(format!("shard {number} has {has} of {all} documents"));
            }
        }
        let files = self.shards.iter().flat_map(|shard| &shard.files);
        for file in files.chain([&self.terms_file]) {
            // If a name could contain a path, a forged manifest could refer to any file.
            let name = Path::new(&file.name);
            if name.file_name() != Some(name.as_os_str()) {
                return Err(format!("the file name {:?}", file.name));
            }
        }
        Ok(())
    }
}

impl FileRecord {
    pub(super) fn of(folder: &Path, name: &str) -> Result<Self, IndexError> {
        let path = folder.join(name);
        let (bytes, hash) = hash_file(&path).map_err(IndexError::io(&path))?;
        Ok(Self { name: name.to_owned(), bytes, hash })
    }

    fn verify(&self, folder: &Path) -> Result<PathBuf, IndexError> {
        let path = folder.join(&self.name);
        let found = match hash_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(IndexError::damaged(&path)(format!(
                    "missing, but {MANIFEST} lists it"
                )));
            }
            found => found.map_err(IndexError::io(&path))?,
        };
        if found == (self.bytes, self.hash.clone()) {
            return Ok(path);
        }
        Err(IndexError::damaged(&path)(format!("damaged: not the file that {MANIFEST} lists")))
    }
}

/// Returns the length and the hash of a file. They detect accidental changes, not deliberate ones.
fn hash_file(path: &Path) -> io::Result<(u64, String)> {
    let mut file = File::open(path)?;
    let (mut hash, mut buffer, mut length) = (Xxh64::new(0), vec![0; 64 << 10], 0);
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok((length, format!("{:016x}", hash.digest())));
        }
        hash.update(&buffer[..read]);
        length += read as u64;
    }
}

/// Returns the folder of a shard.
pub(super) fn shard_folder(directory: &Path, shard: u32) -> PathBuf {
    directory.join(format!("shard-{shard}"))
}
