//! The de-duplicator: records which packets of a turn came out of which instance.

/// The numbers of the packets that one instance processed.
#[derive(Debug, Default, Clone)]
pub(crate) struct Seen {
    words: Vec<u64>,
    count: u64,
}

impl Seen {
    /// Marks a packet. A packet that is marked again still counts once.
    pub(crate) fn mark(&mut self, number: u32) {
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.count += u64::from(self.words[word] & bit == 0);
        self.words[word] |= bit;
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Adds the packets of `other`. Returns the number of new ones.
    pub(crate) fn merge(&mut self, other: &Self) -> u64 {
        let before = self.count;
        self.words.resize(self.words.len().max(other.words.len()), 0);
        for (word, more) in self.words.iter_mut().zip(&other.words) {
            *word |= more;
        }
        self.count = self.words.iter().map(|word| u64::from(word.count_ones())).sum();
        self.count - before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(numbers: impl IntoIterator<Item = u32>) -> Seen {
        let mut seen = Seen::default();
        numbers.into_iter().for_each(|number| seen.mark(number));
        seen
    }

    #[test]
    fn a_packet_counts_once() {
        assert_eq!(seen([0, 63, 64, 1000, 63, 0]).count(), 4);
    }

    #[test]
    fn a_merge_returns_the_number_of_new_packets() {
        let mut one = seen([1, 2, 3]);
        assert_eq!(one.merge(&seen([2, 3, 500, 501])), 2);
        assert_eq!(one.count(), 5);
        assert_eq!(one.merge(&seen([])), 0);
        one.mark(501);
        assert_eq!(one.count(), 5);
    }
}
