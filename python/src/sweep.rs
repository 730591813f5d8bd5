//! A grid of experiments. It is run either as a whole in this process or point by point by the
//! caller.

use std::path::PathBuf;

use curtail_sim::sweep::{self, Error, Lines, Plan, Store, StoreError, pieces};
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;

use crate::ask::{self, bad};
use crate::table::Table;
use crate::watch::{completed, watched};

/// The place where the result lines are kept.
enum Kept {
    Directory(Store),
    Scratch(Lines),
}

impl Kept {
    fn lines(&self) -> &Lines {
        match self {
            Self::Directory(store) => &store.lines,
            Self::Scratch(lines) => lines,
        }
    }

    fn lines_mut(&mut self) -> &mut Lines {
        match self {
            Self::Directory(store) => &mut store.lines,
            Self::Scratch(lines) => lines,
        }
    }
}

/// A validated sweep.
#[pyclass]
pub(crate) struct Sweep {
    plan: Plan,
    /// The number of requests in each point. Empty if the points were not checked.
    requests: Vec<u64>,
    kept: Option<Kept>,
}

#[pymethods]
impl Sweep {
    /// Checks the grid. If `check` is set, every point is also checked, because the whole grid will
    /// be run.
    #[new]
    fn new(
        parameters: &str,
        grid: &str,
        policies: Vec<String>,
        percentiles: Vec<f64>,
        check: bool,
    ) -> PyResult<Self> {
        let axes = ask::axes(grid)?;
        let parameters = ask::parameters(parameters)?;
        let candidates = ask::candidates(&policies)?;
        let percentiles = ask::percentiles(percentiles)?;
        let plan = Plan::new(&parameters, axes, candidates, percentiles).map_err(grid_error)?;
        let lengths = if check { plan.check().map_err(grid_error)? } else { Vec::new() };
        let requests = lengths.into_iter().map(|(requests, _)| requests).collect();
        Ok(Self { plan, requests, kept: None })
    }

    /// Opens the place where lines are kept, which is either a directory or the memory of this
    /// process. Returns the points that have no line yet.
    fn open(&mut self, out: Option<PathBuf>, restart: bool) -> PyResult<Vec<usize>> {
        let kept = match out {
            None => Kept::Scratch(Lines::scratch(&self.plan).map_err(store_error)?),
            Some(folder) => {
                let mut store = Store::open(&folder, &self.plan, restart).map_err(store_error)?;
                store.begin(&self.plan).map_err(store_error)?;
                Kept::Directory(store)
            }
        };
        let missing = kept.lines().missing();
        self.kept = Some(kept);
        Ok(missing)
    }

    /// Returns the number of requests in a point, or 0 if the points were not checked.
    fn requests(&self, point: usize) -> u64 {
        self.requests.get(point).copied().unwrap_or_default()
    }

    /// Runs several points and keeps their result lines.
    fn run(
        &mut self,
        py: Python<'_>,
        points: Vec<usize>,
        threads: Option<i64>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let threads = ask::threads(threads)?;
        let total =
            points.iter().fold(0, |sum: u64, &point| sum.saturating_add(self.requests(point)));
        let Self { plan, kept, .. } = self;
        let lines = kept.as_mut().ok_or_else(closed)?.lines_mut();
        let mut failure = None;
        let ran = watched(py, progress, total, |watch| {
            let how = watch.plan(threads, plan.percentiles());
            plan.run(&points, &how, |line| match lines.append(plan, line) {
                Ok(()) => true,
                Err(error) => {
                    failure = Some(error);
                    false
                }
            })
        })?;
        match failure {
            Some(error) => Err(store_error(error)),
            None => completed(ran.map_err(grid_error)?.then_some(())),
        }
    }

    /// Runs a point and returns its result line without keeping it.
    fn line(&self, py: Python<'_>, point: usize, threads: i64) -> PyResult<String> {
        let threads = ask::threads(Some(threads))?;
        let mut made = None;
        let ran = watched(py, None, 0, |watch| {
            let how = watch.plan(threads, self.plan.percentiles());
            self.plan.run(&[point], &how, |line| {
                made = Some(line);
                true
            })
        })?;
        ran.map_err(grid_error)?;
        completed(made)
    }

    /// Keeps a result line that was computed elsewhere.
    fn append(&mut self, line: String) -> PyResult<()> {
        let lines = self.kept.as_mut().ok_or_else(closed)?.lines_mut();
        lines.append(&self.plan, line).map_err(store_error)
    }

    /// Writes the table of a directory as CSV, and passes batches of its rows to `take`, so that
    /// Arrow can write them at the same time. All points must be finished.
    fn finish(&self, py: Python<'_>, take: Py<PyAny>) -> PyResult<()> {
        let kept = self.kept.as_ref().ok_or_else(closed)?;
        if !kept.lines().missing().is_empty() {
            return Err(PyRuntimeError::new_err("points of the sweep are missing"));
        }
        let plan = &self.plan;
        if let Kept::Directory(store) = kept {
            py.detach(|| store.write_tables(plan, |_| ())).map_err(store_error)?;
        }
        let schema = plan.schema();
        let mut raised = None;
        let read = pieces(plan, kept.lines(), |piece, _| {
            if raised.is_none() {
                raised = take.call1(py, (Table::new(&schema, piece),)).err();
            }
            Ok(())
        });
        match raised {
            Some(error) => Err(error),
            None => read.map_err(|error| PyOSError::new_err(error.to_string())),
        }
    }

    /// Closes the directory. The finished lines remain in it.
    fn close(&mut self) {
        self.kept = None;
    }
}

/// Converts an error about a grid to one that describes the fix in terms of Python.
fn grid_error(error: sweep::Error) -> PyErr {
    match error {
        Error::Empty => bad("the grid is empty; vary something, such as {\"utilization\": [0.1, \
                             0.2]}"),
        Error::Unfilled { name, key } => bad(format_args!(
            "{name} has {{{key}}}, and the grid has no {key}; add it: \"{key}\": [1, 2]"
        )),
        other => bad(other),
    }
}

fn store_error(error: StoreError) -> PyErr {
    match error {
        StoreError::Another { .. } => {
            bad(format_args!("{error}; give another out, or drop it with restart=True"))
        }
        StoreError::Line { .. } => {
            bad(format_args!("{error}; repair the line, or drop all results with restart=True"))
        }
        StoreError::Foreign { .. } => bad(error),
        StoreError::Busy { .. } | StoreError::Io { .. } => PyOSError::new_err(error.to_string()),
    }
}

fn closed() -> PyErr {
    PyRuntimeError::new_err("the sweep keeps no lines; open it first")
}
