//! FNV-1a, 64 bits: fingerprints that stay the same across releases of Rust and across machines.
//!
//! It detects accidents (a torn write, another corpus), not attacks. The standard library's
//! hasher would do, but promises no stability between releases.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// A running FNV-1a hash.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fnv(u64);

impl Fnv {
    pub(crate) fn new() -> Self {
        Self(OFFSET)
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(PRIME);
        }
    }

    /// Writes the length first, so that `("ab", "c")` and `("a", "bc")` differ.
    pub(crate) fn write_text(&mut self, text: &str) {
        self.write(&(text.len() as u64).to_le_bytes());
        self.write(text.as_bytes());
    }

    /// Sixteen hexadecimal digits.
    pub(crate) fn hex(self) -> String {
        format!("{:016x}", self.0)
    }
}

/// Length and hash of a file.
pub(crate) fn hash_file(path: &Path) -> io::Result<(u64, String)> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 64 * 1024];
    let mut hash = Fnv::new();
    let mut bytes = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((bytes, hash.hex())),
            n => {
                hash.write(&buffer[..n]);
                bytes += n as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Fnv;

    #[test]
    fn known_values() {
        let mut hash = Fnv::new();
        assert_eq!(hash.hex(), "cbf29ce484222325");
        hash.write(b"foobar");
        assert_eq!(hash.hex(), "85944171f73967e8");
    }

    #[test]
    fn the_border_between_texts_counts() {
        let mut one = Fnv::new();
        one.write_text("ab");
        one.write_text("c");
        let mut other = Fnv::new();
        other.write_text("a");
        other.write_text("bc");
        assert_ne!(one.hex(), other.hex());
    }
}
