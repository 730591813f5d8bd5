//! The CPU affinity of threads.
//!
//! A sender is late by milliseconds if its processor runs another thread of this program, such as
//! the one that merges records twice per second. Threads can therefore be pinned to separate
//! processors. Results record the affinity, because it affects times at the scale of microseconds.

use std::fmt;
use std::io;
use std::str::FromStr;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

/// Maximum number of processors.
const PROCESSORS_MAX: usize = CpuSet::MAX_CPU;

/// A set of processors, identified by their system numbers. If it is empty, the system chooses a
/// processor for each thread.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processors(Vec<usize>);

impl Processors {
    /// Returns the processors that the calling thread may run on.
    pub fn allowed() -> io::Result<Processors> {
        let allowed = sched_getaffinity(None)?;
        Ok(Processors((0..PROCESSORS_MAX).filter(|number| allowed.is_set(*number)).collect()))
    }

    /// Returns the processor numbers, in order.
    pub fn numbers(&self) -> &[usize] {
        &self.0
    }

    /// Reserves these processors for other threads. The calling thread, and threads that it starts
    /// later, no longer run on them. The method does nothing if no other processor would be left.
    /// Returns an error if any of the processors is not available to this thread.
    pub fn reserve(&self) -> io::Result<()> {
        let allowed = Processors::allowed()?;
        if let Some(number) = self.0.iter().find(|number| !allowed.0.contains(number)) {
            let text = format!("this program may not run on processor {number}, only on {allowed}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let left = allowed.0.iter().filter(|number| !self.0.contains(number));
        let left: Vec<usize> = left.copied().collect();
        if left.is_empty() { Ok(()) } else { keep_to(&left) }
    }
}

/// Pins the calling thread to these processors.
pub fn keep_to(numbers: &[usize]) -> io::Result<()> {
    let mut only = CpuSet::new();
    numbers.iter().for_each(|number| only.set(*number));
    Ok(sched_setaffinity(None, &only)?)
}

impl FromStr for Processors {
    type Err = String;

    /// Parses a list of numbers and ranges: `0,2-4`.
    fn from_str(text: &str) -> Result<Processors, String> {
        let number = |text: &str| {
            let number: Option<usize> = text.trim().parse().ok();
            number.filter(|number| *number < PROCESSORS_MAX)
        };
        let mut numbers = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let bounds = number(first).zip(number(last)).filter(|(first, last)| first <= last);
            let (first, last) = bounds.ok_or_else(|| {
                format!(
                    "`{part}` is not a processor; write numbers below {PROCESSORS_MAX} and \
                     ranges, such as 0,2-4"
                )
            })?;
            if let Some(twice) = (first..=last).find(|number| numbers.contains(number)) {
                return Err(format!("processor {twice} is named twice"));
            }
            numbers.extend(first..=last);
        }
        Ok(Processors(numbers))
    }
}

impl fmt::Display for Processors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, run) in self.0.chunk_by(|one, next| one + 1 == *next).enumerate() {
            let comma = if at == 0 { "" } else { "," };
            match run {
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                run => write!(f, "{comma}{}", run[0])?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_and_ranges_are_read_in_their_order() {
        let read: Processors = "3,0-2, 7".parse().unwrap();
        assert_eq!(read.numbers(), [3, 0, 1, 2, 7]);
        assert_eq!(read.to_string(), "3,0-2,7");
        for (text, why) in [
            ("", "`` is not a processor"),
            ("1,,2", "`` is not a processor"),
            ("2-1", "`2-1` is not a processor"),
            ("-1", "`-1` is not a processor"),
            ("0-99999999999", "write numbers below"),
            ("0-3,2", "processor 2 is named twice"),
        ] {
            let error = text.parse::<Processors>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn a_thread_leaves_reserved_processors_and_stays_on_its_own() {
        let of_thread = |body: fn() -> Processors| std::thread::spawn(body).join().unwrap();
        let allowed = Processors::allowed().unwrap();
        let off = of_thread(|| {
            Processors(vec![Processors::allowed().unwrap().0[0]]).reserve().unwrap();
            Processors::allowed().unwrap()
        });
        let on = of_thread(|| {
            keep_to(&Processors::allowed().unwrap().0[..1]).unwrap();
            // Reserving all processors would leave none.
            Processors::allowed().unwrap().reserve().unwrap();
            Processors::allowed().unwrap()
        });
        let (first, others) = allowed.0.split_at(1);
        assert_eq!(off.0, if others.is_empty() { first } else { others });
        assert_eq!(on.0, first);
        let none = Processors(vec![PROCESSORS_MAX - 1]).reserve().unwrap_err().to_string();
        assert!(none.contains(&format!("only on {allowed}")), "{none}");
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_rejected(text in "[0-9, -]{0,12}|.{0,6}") {
            if let Ok(read) = text.parse::<Processors>() {
                prop_assert_eq!(read.to_string().parse::<Processors>().unwrap(), read);
            }
        }
    }
}
