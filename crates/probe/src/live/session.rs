//! Profiles a running server in time slices.
//!
//! In one of every k slices, all requests are stamped. In the other slices, no request is stamped
//! and no mark is attached, because a probe costs a trap even if its program returns immediately.
//! Sampling whole slices keeps batches together, whereas sampling single requests would split them.
//! Slices start at irregular intervals, to cover all phases of periodic work. A slice consists of
//! windows with separate sums.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use curtail_machine::{LocalLeaf, Sampler};
use rustix::time::{ClockId, clock_gettime};

use super::cost::trap_ns;
use super::error::list;
use super::kernel::{Control, EVIDENCE, Kernel, MARK, REPORT_WORDS, STAGES, STAMPS, Sums, VALUES};
use super::places::Places;
use super::{LiveError, Target};
use crate::app::App;
use crate::histogram::Histogram;
use crate::moments::Moments;
use crate::profile::{Cost, Evidence, Lost, Profile, Sampling, WHOLE_MAX, Whole, Window};

/// The options of a profile.
#[derive(Debug, Clone)]
pub struct Options {
    /// The application and its marks.
    pub app: App,
    /// The share of slices that are stamped.
    pub sampling: Sampling,
    /// The length of a slice, if the profile is long enough for at least three slices. Attaching
    /// marks stops the server for milliseconds, so these stops would dominate the latency tail if
    /// slices were short.
    pub slice: Duration,
    /// The length of the profile, excluding calibration.
    pub duration: Duration,
    /// The maximum number of open connections. Requests on further connections are not seen.
    pub connections: u32,
    /// Whether marks may be placed at instructions that are slow to probe.
    pub allow_slow: bool,
}

/// The interval at which reports are collected. The interval is short enough to keep the report
/// buffer from filling up.
const POLL: Duration = Duration::from_millis(20);
/// The maximum length of a window.
const WINDOW: Duration = Duration::from_millis(100);
/// The minimum number of slices. Slices are shortened if necessary.
const SLICES_MIN: u32 = 3;
/// The time within which programs that still use a bank end after it is closed.
const GRACE: Duration = Duration::from_millis(1);
/// Calibration ends after this number of requests, or after this time, whichever comes first.
const CALIBRATION: (u64, Duration) = (2_000, Duration::from_secs(1));
/// The full cost of programs and traps, as a multiple of their measured time. The measured time
/// includes neither the time to enter them nor the cost of the cache lines that they evict. The
/// factor is a cautious estimate. To compare the estimate with the actual cost when every request
/// is stamped, run `curtail-stages memcached-cost-all`.
const UNSEEN: f64 = 1.3;
/// The maximum value of N when one in N slices is stamped.
const ONE_IN_MAX: u32 = 1_000;

/// A profiling session for one server. Dropping it removes all probes.
#[derive(Debug)]
pub struct Session {
    target: Target,
    options: Options,
    kernel: Kernel,
    control: Control,
    profile: Profile,
    warnings: Vec<String>,
    /// The cost of one trap. The number of times that requests pass the marks is unknown here, so
    /// the estimate counts one trap per mark and request.
    trap_ns: f64,
    /// The start of the current window. While stamping is on, a window starts where the previous
    /// one ended: a request that is counted is in exactly one window, however late this thread
    /// runs, and a rate is its requests over its length.
    window_ns: u64,
}

impl Session {
    /// Loads the programs and locates the marks.
    ///
    /// # Errors
    ///
    /// If a mark cannot be located, or the kernel refuses.
    pub fn attach(target: Target, options: Options) -> Result<Session, LiveError> {
        let places = Places::find(&target, &options.app, options.allow_slow)?;
        let mut kernel = Kernel::load(&target, &options.app, &places, options.connections)?;
        let trap_ns = if places.places.is_empty() { 0.0 } else { trap_ns(&mut kernel)? };
        let evidence = [
            Evidence::Wakeup,
            Evidence::RunQueue,
            Evidence::Blocked,
            Evidence::Remote,
            Evidence::Batch,
        ];
        let profile = Profile {
            target: format!("{} (process {})", target.name, target.processes[0]),
            stages: options.app.stages(),
            evidence: evidence.to_vec(),
            begin_ns: monotonic_ns(),
            ..Profile::default()
        };
        let (control, warnings) = (Control::default(), places.warnings);
        Ok(Session { target, options, kernel, control, profile, warnings, trap_ns, window_ns: 0 })
    }

    /// Returns warnings about the marks, for the user.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Profiles until the duration has passed, the server ends, or `stop` is true. After each
    /// window, `progress` is called with the profile measured up to that point. The profile is
    /// never empty, unless `stop` is true.
    ///
    /// # Errors
    ///
    /// If no request was seen, or the kernel refuses an operation.
    pub fn run(
        mut self,
        stop: &AtomicBool,
        mut progress: impl FnMut(&Profile),
    ) -> Result<Profile, LiveError> {
        let Some(mut cost) = self.calibrate(stop)? else { return self.conclude(stop) };
        let full = cost.share;
        cost.one_in = match self.options.sampling {
            Sampling::OneIn(one_in) => one_in.clamp(1, ONE_IN_MAX),
            Sampling::Share(bound) => {
                (full / bound).ceil().clamp(1.0, f64::from(ONE_IN_MAX)) as u32
            }
        };
        cost.share = full / f64::from(cost.one_in);
        self.profile.cost = Some(cost);
        let start = Instant::now();
        let leaf = LocalLeaf {
            processes: self.target.processes.iter().map(|pid| pid.cast_signed()).collect(),
            name: self.target.name.clone(),
        };
        let sampler = Sampler::start(&leaf, Duration::from_millis(250)).ok();
        if cost.one_in == 1 {
            self.kernel.attach_all()?;
            self.turn_on()?;
        }
        let slices = (self.options.duration.as_secs_f64()
            / (self.options.slice.as_secs_f64() * f64::from(cost.one_in)))
        .max(f64::from(SLICES_MIN)) as u32;
        let period = self.options.duration / slices;
        let mut slice = 0;
        while !stop.load(Ordering::Relaxed)
            && start.elapsed() < self.options.duration
            && self.target.is_alive()
        {
            match cost.one_in {
                1 => self.window(stop, &mut progress)?,
                one_in => self.slice(slice, period, one_in, stop, &mut progress)?,
            }
            slice += 1;
        }
        let end = Instant::now();
        self.turn_off()?;
        self.profile.machine = sampler.and_then(|sampler| sampler.finish().between(start, end));
        self.conclude(stop)
    }

    /// Measures the cost of stamping per request, and as a share of the request's time. `None` if
    /// there were no requests.
    fn calibrate(&mut self, stop: &AtomicBool) -> Result<Option<Cost>, LiveError> {
        let stats = aya::sys::enable_stats(aya::sys::Stats::RunTime);
        let stats = stats.map_err(|error| LiveError::kernel("statistics of programs", &error))?;
        self.kernel.attach_all()?;
        self.turn_on()?;
        let (start, run_ns) = (Instant::now(), self.kernel.run_ns());
        let mut seen = self.profile.window(0, 0);
        loop {
            seen.merge(&self.next_window(stop)?);
            let requests = seen.moments.requests();
            let idle =
                requests == 0 && self.target.is_alive() && start.elapsed() < self.options.duration;
            let enough = requests >= CALIBRATION.0 || start.elapsed() >= CALIBRATION.1;
            if stop.load(Ordering::Relaxed) || enough && !idle {
                break;
            }
        }
        let ran = self.kernel.run_ns() - run_ns;
        drop(stats);
        while self.kernel.report().is_some() {}
        let requests = seen.moments.requests() as f64;
        if requests == 0.0 {
            return Ok(None);
        }
        let marks = self.options.app.mark.len() as f64;
        let ns_per_request = UNSEEN * (ran as f64 / requests + marks * self.trap_ns);
        // The median is used because a few slow requests raise the mean, which would hide much of
        // the cost.
        let quantile = |q| seen.histograms.last().and_then(|all| all.quantile(q)).unwrap_or(0.0);
        let share = ns_per_request / quantile(0.5).max(1.0);
        // About WHOLE_MAX random requests are kept during the whole profile.
        let rate = requests / start.elapsed().as_secs_f64();
        let expected = rate * self.options.duration.as_secs_f64();
        self.control.one_in = (expected / WHOLE_MAX as f64).ceil().max(1.0) as u64;
        self.control.slow_ns = quantile(0.99) as u64;
        self.turn_off()?;
        self.kernel.detach_all();
        thread::sleep(GRACE);
        // Requests that ended after the last window are not part of the profile.
        (0..2).try_for_each(|bank| self.kernel.sums(bank).map(drop))?;
        Ok(Some(Cost { ns_per_request, share, one_in: 1 }))
    }

    fn turn_on(&mut self) -> Result<(), LiveError> {
        self.control.epoch = monotonic_ns().max(1);
        self.window_ns = self.control.epoch;
        self.control.real_ns = real_less_monotonic_ns();
        if self.control.slow_ns == 0 {
            self.control.slow_ns = u64::MAX;
        }
        self.kernel.set(self.control)
    }

    fn turn_off(&mut self) -> Result<(), LiveError> {
        self.kernel.set(Control { epoch: 0, ..self.control })
    }

    /// Profiles one window while stamping stays enabled. It switches to the other bank and then
    /// reads the closed one.
    fn window(
        &mut self,
        stop: &AtomicBool,
        progress: &mut impl FnMut(&Profile),
    ) -> Result<(), LiveError> {
        let window = self.next_window(stop)?;
        self.profile.push(window);
        self.choose_slow();
        progress(&self.profile);
        Ok(())
    }

    fn next_window(&mut self, stop: &AtomicBool) -> Result<Window, LiveError> {
        thread::sleep(Duration::from_millis(20));
        self.sleep(self.options.slice.min(WINDOW), stop);
        let bank = self.control.bank;
        self.control.bank = 1 - bank;
        self.control.real_ns = real_less_monotonic_ns();
        self.kernel.set(self.control)?;
        let start_ns = std::mem::replace(&mut self.window_ns, monotonic_ns());
        let length_ns = self.window_ns - start_ns;
        thread::sleep(GRACE);
        let sums = self.kernel.sums(bank as usize)?;
        Ok(self.window_of(&sums, start_ns - self.profile.begin_ns, length_ns))
    }

    /// Profiles one slice per period, at an offset that differs between periods.
    fn slice(
        &mut self,
        number: u32,
        period: Duration,
        one_in: u32,
        stop: &AtomicBool,
        progress: &mut impl FnMut(&Profile),
    ) -> Result<(), LiveError> {
        let begin = Instant::now();
        let length = period / one_in;
        let place = (f64::from(number) * 0.618_033_988_749_895).fract();
        self.sleep((period - length).mul_f64(place), stop);
        self.kernel.attach_all()?;
        self.turn_on()?;
        let start = Instant::now();
        while start.elapsed() < length && !stop.load(Ordering::Relaxed) {
            self.window(stop, progress)?;
        }
        self.turn_off()?;
        self.kernel.detach_all();
        self.sleep(period.saturating_sub(begin.elapsed()), stop);
        Ok(())
    }

    /// Sleeps, and collects reports in the meantime.
    fn sleep(&mut self, length: Duration, stop: &AtomicBool) {
        let start = Instant::now();
        while let Some(rest) = length.checked_sub(start.elapsed()) {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            thread::sleep(rest.min(POLL));
            while let Some(report) = self.kernel.report() {
                self.take(&report);
            }
        }
    }

    fn take(&mut self, report: &[u64; REPORT_WORDS]) {
        let (stamps, evidence) = report[1..].split_at(STAMPS);
        let durations = stamps.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
        let marks = self.options.app.mark.len();
        let kept = durations.enumerate().filter(|&(stage, _)| !is_absent(stage, marks));
        let whole = Whole {
            start_ns: stamps[0].saturating_sub(self.profile.begin_ns),
            stages_ns: kept.map(|(_, ns)| ns).collect(),
            evidence: evidence.to_vec(),
        };
        if report[0] > 0 && self.profile.sampled.len() < WHOLE_MAX {
            self.profile.sampled.push(whole.clone());
        }
        if stamps[STAMPS - 1] - stamps[0] >= self.control.slow_ns {
            self.profile.slow.push(whole);
            if self.profile.slow.len() >= 2 * WHOLE_MAX {
                keep_slowest(&mut self.profile.slow);
            }
        }
    }

    /// Converts sums from the programs to a window. It drops the marks that the application does
    /// not have, and adds the total.
    fn window_of(&self, sums: &Sums, start_ns: u64, length_ns: u64) -> Window {
        let marks = self.options.app.mark.len();
        let kept: Vec<usize> = (0..VALUES).filter(|&value| !is_absent(value, marks)).collect();
        let stages = kept.len() - EVIDENCE;
        let product = |a: usize, b: usize| {
            let (a, b) = (a.min(b), a.max(b));
            sums.products[a * (2 * VALUES + 1 - a) / 2 + (b - a)]
        };
        let with_total =
            |value: usize| kept[..stages].iter().map(|&stage| product(value, stage)).sum::<u128>();
        let mut totals: Vec<u64> = kept.iter().map(|&value| sums.sums[value]).collect();
        totals.push(totals[..stages].iter().sum());
        let mut products = Vec::new();
        for (at, &a) in kept.iter().enumerate() {
            products.extend(kept[at..].iter().map(|&b| product(a, b)));
            products.push(with_total(a));
        }
        products.push(kept[..stages].iter().map(|&stage| with_total(stage)).sum());
        let mut window = self.profile.window(start_ns, length_ns);
        window.moments = Moments::from_sums(sums.requests, &totals, &products);
        let counted = kept[..stages].iter().chain(&[STAGES]).map(|&value| &sums.buckets[value]);
        for (histogram, counts) in window.histograms.iter_mut().zip(counted) {
            let filled = counts.iter().enumerate().filter(|&(_, &count)| count > 0);
            filled.for_each(|(bucket, &count)| histogram.add(bucket, count));
        }
        window
    }

    /// Sets the threshold of slow requests to the p99 of the last windows.
    fn choose_slow(&mut self) {
        let recent = self.profile.windows.iter().rev().take(8);
        let mut all = Histogram::default();
        recent
            .filter_map(|window| window.histograms.last())
            .for_each(|histogram| all.merge(histogram));
        if all.count() >= 100 {
            self.control.slow_ns = all.quantile(0.99).unwrap_or(0.0) as u64;
        }
    }

    fn conclude(mut self, stop: &AtomicBool) -> Result<Profile, LiveError> {
        if self.profile.windows.is_empty() && !stop.load(Ordering::Relaxed) {
            return Err(self.nothing());
        }
        while let Some(report) = self.kernel.report() {
            self.take(&report);
        }
        keep_slowest(&mut self.profile.slow);
        let missing =
            self.kernel.missing()?.into_iter().map(|(reason, count)| (reason.to_owned(), count));
        let missed = (
            "program runs that were skipped because another one was running".to_owned(),
            self.kernel.missed_runs(),
        );
        let lost = missing.chain([missed]).filter(|&(_, count)| count > 0);
        self.profile.lost = lost.map(|(reason, count)| Lost { reason, count }).collect();
        if !self.target.is_alive() {
            let reason = "the server ended while it was profiled".to_owned();
            self.profile.lost.push(Lost { reason, count: 1 });
        }
        Ok(self.profile)
    }

    /// Returns the error for a profile without requests. The reason depends on the last point at
    /// which requests were seen.
    fn nothing(&self) -> LiveError {
        let marks = self.options.app.mark.iter().enumerate();
        let avoided = marks.filter(|&(at, _)| self.kernel.mark_runs(at) == 0).map(|of| of.1).next();
        let why = match avoided {
            _ if !self.target.is_alive() => "the server ended".to_owned(),
            _ if !self.kernel.has_connections() => format!(
                "no packet reached port {}; profile while there is load",
                list(&self.target.ports)
            ),
            Some(mark) => format!(
                "packets arrived, but none of them passed {}: the compiler may have inlined it, \
                 or these requests take another path; name another function in --app FILE, or use \
                 --app none",
                mark.place()
            ),
            None => "no response was seen; profile for longer, under load".to_owned(),
        };
        LiveError::NoRequest { target: self.profile.target.clone(), why }
    }
}

/// Whether a value is a stage that does not exist because the application lacks the mark at its
/// end.
fn is_absent(value: usize, marks: usize) -> bool {
    (MARK + marks..STAMPS - 2).contains(&(value + 1))
}

fn keep_slowest(slow: &mut Vec<Whole>) {
    slow.sort_by_key(|whole| std::cmp::Reverse(whole.stages_ns.iter().sum::<u64>()));
    slow.truncate(WHOLE_MAX);
}

fn monotonic_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// Returns CLOCK_REALTIME minus CLOCK_MONOTONIC. The fastest of five readings is used, because an
/// interruption between the readings of the two clocks distorts the difference.
fn real_less_monotonic_ns() -> u64 {
    let readings = (0..5).map(|_| {
        let before = monotonic_ns();
        let real = nanoseconds(ClockId::Realtime);
        let took = monotonic_ns() - before;
        (took, real.wrapping_sub(before + took / 2))
    });
    readings.min().map_or(0, |(_, apart)| apart)
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}
