//! Cuts a text into sections of about 2 KiB, at the ends of paragraphs where it can.

use super::head;

/// A section ends at the first end of a paragraph after so many bytes.
const TARGET_BYTES: usize = 2 << 10;

/// A section ends after so many bytes at the latest.
const MAX_BYTES: usize = 2 * TARGET_BYTES;

/// The sections of a text, none of them blank.
pub(super) fn sections(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let (section, more) = rest.split_at(section_end(rest));
            rest = more;
            let section = section.trim();
            if !section.is_empty() {
                return Some(section);
            }
        }
        None
    })
}

/// Where the first section ends. Never 0 for a text that is not empty.
fn section_end(text: &str) -> usize {
    if text.len() <= TARGET_BYTES {
        return text.len();
    }
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        if end + line.len() > MAX_BYTES {
            break;
        }
        end += line.len();
        if end >= TARGET_BYTES && line.trim().is_empty() {
            return end;
        }
    }
    // No paragraph ends in time: cut after a line, or inside one that is too long by itself.
    if end == 0 { head(text, MAX_BYTES).len() } else { end }
}
