//! Writes interval logs, in version 1.3 of the format, histograms in version 2, compressed.

use std::io::{self, Write};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};

/// The column of largest values is for people, in milliseconds, as most writers have it.
const MAX_UNIT_NS: f64 = 1e6;

/// Writes an interval log of HdrHistogram, line by line, for the tools that read such logs, and for
/// [`LogReader`](crate::LogReader).
#[allow(missing_debug_implementations)] // the serializer inside has none
pub struct LogWriter<W> {
    to: W,
    serializer: V2DeflateSerializer,
}

impl<W: Write> LogWriter<W> {
    /// Begins a log whose times count from `start`, the time since 1970 (UTC). `comment` is its first
    /// line.
    pub fn new(mut to: W, comment: &str, start: Duration) -> io::Result<Self> {
        let seconds = start.as_secs_f64();
        for line in comment.lines() {
            writeln!(to, "#{line}")?;
        }
        writeln!(to, "#[Histogram log format version 1.3]")?;
        writeln!(to, "#[BaseTime: {seconds:.3} (seconds since epoch)]")?;
        writeln!(to, "#[StartTime: {seconds:.3} (seconds since epoch)]")?;
        let names = ["StartTimestamp", "Interval_Length", "Interval_Max"];
        let names = names.map(|name| format!("\"{name}\"")).join(",");
        writeln!(to, "{names},\"Interval_Compressed_Histogram\"")?;
        to.flush()?;
        Ok(Self { to, serializer: V2DeflateSerializer::new() })
    }

    /// Writes what was counted in the time from `from`, since the start, for a length. It is flushed, so
    /// that what was written can be read while more is to come.
    pub fn write(
        &mut self,
        counted: &Histogram<u64>,
        from: Duration,
        length: Duration,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        self.serializer.serialize(counted, &mut bytes).map_err(io::Error::other)?;
        let (from, length) = (from.as_secs_f64(), length.as_secs_f64());
        let max = counted.max() as f64 / MAX_UNIT_NS;
        // As one, so that whoever reads meanwhile sees whole lines.
        let line = format!("{from:.3},{length:.3},{max:.3},{}\n", STANDARD.encode(bytes));
        self.to.write_all(line.as_bytes())?;
        self.to.flush()
    }
}
