//! Entries by number. The numbers of entries that were freed are used again, the last one first.
//!
//! An entry that was freed can be read until its number is used again.

use std::ops::{Index, IndexMut};

#[derive(Debug)]
pub(crate) struct Pool<T> {
    entries: Vec<T>,
    free: Vec<u32>,
}

impl<T> Pool<T> {
    pub(crate) fn new() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }

    /// Returns the number of the next entry.
    pub(crate) fn next(&self) -> u32 {
        self.free.last().map_or(self.entries.len() as u32, |&number| number)
    }

    #[inline(always)]
    pub(crate) fn add(&mut self, entry: T) -> u32 {
        let Some(number) = self.free.pop() else { return self.grow(entry) };
        self.entries[number as usize] = entry;
        number
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, entry: T) -> u32 {
        self.entries.push(entry);
        self.entries.len() as u32 - 1
    }

    #[inline(always)]
    pub(crate) fn free(&mut self, number: u32) {
        self.free.push(number);
    }

    /// Returns the number of entries, free or not.
    pub(crate) fn len(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Returns the number of entries that are not free.
    pub(crate) fn open(&self) -> u64 {
        (self.entries.len() - self.free.len()) as u64
    }

    /// Returns the number of an entry, free or not, or `None` if no entry has ever had it.
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        self.entries.get(number as usize)
    }

    /// Returns the numbers of all entries that are not free.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> {
        (0..self.entries.len() as u32).filter(|number| !self.free.contains(number))
    }
}

impl<T> Index<u32> for Pool<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, number: u32) -> &T {
        &self.entries[number as usize]
    }
}

impl<T> IndexMut<u32> for Pool<T> {
    #[inline(always)]
    fn index_mut(&mut self, number: u32) -> &mut T {
        &mut self.entries[number as usize]
    }
}
