//! Collects documents up to the limits, and counts what was left out.

use std::ops::ControlFlow;

use curtail_report::number;

use super::{Corpus, CorpusError, Document, Limits};

/// Maximum length of a body. Longer bodies are truncated.
const MAX_BODY_BYTES: usize = 64 << 10;

/// Maximum length of a title.
const MAX_TITLE_BYTES: usize = 512;

/// A corpus that is being collected.
#[derive(Debug)]
pub(super) struct Gather {
    limits: Limits,
    documents: Vec<Document>,
    bytes: u64,
    cut: Option<&'static str>,
    shortened: u64,
    /// Number of files and folders that are not text, are too large, or cannot be read.
    pub(super) skipped: u64,
}

impl Gather {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, documents: Vec::new(), bytes: 0, cut: None, shortened: 0, skipped: 0 }
    }

    /// Adds a document. Returns `Break` if a limit has been reached, in which case the document is
    /// not added.
    pub(super) fn push(&mut self, title: &str, body: &str) -> ControlFlow<()> {
        let (title, whole) = (head(title, MAX_TITLE_BYTES), body.len());
        let body = head(body, MAX_BODY_BYTES);
        let bytes = (title.len() + body.len()) as u64;
        let id = self.documents.len() as u64;
        if id >= self.limits.max_documents {
            self.cut = Some("documents");
        } else if self.bytes + bytes > self.limits.max_bytes {
            self.cut = Some("bytes");
        }
        if self.cut.is_some() {
            return ControlFlow::Break(());
        }
        self.shortened += u64::from(body.len() < whole);
        self.bytes += bytes;
        self.documents.push(Document { id, title: title.to_owned(), body: body.to_owned() });
        ControlFlow::Continue(())
    }

    pub(super) fn len(&self) -> u64 {
        self.documents.len() as u64
    }

    /// Returns the corpus. `describe` gets the formatted number of documents.
    pub(super) fn finish(self, describe: impl Fn(&str) -> String) -> Result<Corpus, CorpusError> {
        let mut description = describe(&number::count(self.len()));
        if self.documents.is_empty() {
            return Err(CorpusError::Empty { source_description: description });
        }
        let mut remarks = Vec::new();
        if let Some(bound) = self.cut {
            description.push_str(" (cut)");
            let limit =
                if bound == "bytes" { self.limits.max_bytes } else { self.limits.max_documents };
            remarks.push(format!(
                "the corpus stops after {} documents because of the limit of {} {bound}; raise \
                 the limit to include more",
                number::count(self.len()),
                number::count(limit),
            ));
        }
        let counted = [
            (self.shortened, format!("documents shortened to {} KiB", MAX_BODY_BYTES >> 10)),
            (
                self.skipped,
                "files skipped that are not UTF-8 text, larger than 8 MiB, or not readable"
                    .to_owned(),
            ),
        ];
        let counted = counted.into_iter().filter(|(count, _)| *count > 0);
        remarks.extend(counted.map(|(count, what)| format!("{} {what}", number::count(count))));
        Ok(Corpus::new(self.documents, description, remarks))
    }
}

/// Returns the longest prefix that has at most `max` bytes and does not split a character.
pub(crate) fn head(text: &str, max: usize) -> &str {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A section ends with the first paragraph that ends after this many bytes.
const TARGET_BYTES: usize = 2 << 10;

/// Maximum length of a section, in bytes.
const MAX_BYTES: usize = 2 * TARGET_BYTES;

/// Splits a text into sections that are not blank.
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

/// Returns the end of the first section. It is 0 only if the text is empty.
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
    // No paragraph ends within the maximum length, so the section ends after a line. It ends inside
    // a line if that line alone is too long.
    if end == 0 { head(text, MAX_BYTES).len() } else { end }
}
