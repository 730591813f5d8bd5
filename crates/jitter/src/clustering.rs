//! Whether hiccups come in clusters: by how much counts of them vary beyond what independent ones
//! would.
//!
//! The index of dispersion of the counts in [`BATCHES`] stretches of time, and of the counts by
//! query; the larger of the two, and 1 at least. So many executions tell as little as that many
//! fewer independent ones would. The index is itself uncertain: it is increased by what Student's t
//! has over the normal distribution.
//!
//! Source: the method of batch means (Law and Kelton, section 9.5), on indicators; effective sample
//! size of Kish, "Survey Sampling", 1965. Cost: O(n).

use super::executions::View;
use super::interval::student_quantile;

/// Stretches of time: long ones, so that whatever is correlated within one counts.
const BATCHES: usize = 30;
/// The 97.5 % quantile of the standard normal.
const NORMAL: f64 = 1.959_964;

/// By what factor counts of executions with a jitter of at least `from_ns` vary more than
/// independent ones; 1 or more.
pub(super) fn dispersion(view: View<'_>, from_ns: f64) -> f64 {
    let all = view.iter().count();
    let mut by_query = vec![Counts::default(); view.numbers()];
    let mut by_time = vec![Counts::default(); BATCHES.min(all)];
    for (at, execution) in view.iter().enumerate() {
        let slow = f64::from(u8::from(execution.jitter_ns() as f64 >= from_ns));
        let batch = (at as u128 * by_time.len() as u128 / all as u128) as usize;
        let groups = [by_query.get_mut(execution.query), by_time.get_mut(batch)];
        for counts in groups.into_iter().flatten() {
            counts.all += 1.0;
            counts.slow += slow;
        }
    }
    index(&by_query).max(index(&by_time)).max(1.0)
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    all: f64,
    slow: f64,
}

fn index(groups: &[Counts]) -> f64 {
    let groups: Vec<&Counts> = groups.iter().filter(|group| group.all > 0.0).collect();
    let all: f64 = groups.iter().map(|group| group.all).sum();
    let share = groups.iter().map(|group| group.slow).sum::<f64>() / all.max(1.0);
    if groups.len() < 2 || share <= 0.0 || share >= 1.0 {
        return 1.0;
    }
    let freedom = (groups.len() - 1) as f64;
    let squares = groups.iter().map(|group| (group.slow - group.all * share).powi(2) / group.all);
    let index = squares.sum::<f64>() / (share * (1.0 - share)) / freedom;
    if index > 1.0 { index * (student_quantile(freedom) / NORMAL).powi(2) } else { 1.0 }
}
