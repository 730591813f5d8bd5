//! Descriptors: all that is known of a pick, a rate or a hedge by its name. The parser of names, help
//! and error texts, configurations, metrics, cells, the simulator and its advice read them here.
//!
//! A part of one's own has a descriptor in a static, like ours. [`crate::Catalog`] gives it a name.

use core::fmt;

/// A part of a policy: its name, its arguments, what it needs, and what it builds.
pub struct Descriptor<B: 'static> {
    /// The name, which is the same in configurations, on command lines, in metrics and on pages.
    pub name: &'static str,
    /// Every form of the name, or nothing if that is its only form. For help, for error texts and for the parser. Capital letters stand for
    /// [arguments](Arguments), words for themselves, and brackets mark an optional word.
    pub forms: &'static [&'static str],
    /// What it does, in a line.
    pub about: &'static str,
    /// What it needs.
    pub needs: fn(&Arguments) -> Needs,
    /// What it builds.
    pub builds: B,
}

/// The arguments of a part. `None` for those that its form does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Arguments {
    /// The number of the form that was used, where an optional word counts as a further form.
    pub form: usize,
    /// `D`: a duration, in ns.
    pub delay_ns: Option<u64>,
    /// The second `D` of a form that has two.
    pub second_delay_ns: Option<u64>,
    /// `pN`: a percentile, above 0 and below 100.
    pub percentile: Option<f64>,
    /// `Q`: a fraction, from 0 to 1.
    pub fraction: Option<f64>,
}

impl Arguments {
    /// Those of a name without arguments.
    pub const NONE: Self = Self::form(0);

    /// The arguments of a form that consists of words only.
    #[must_use]
    pub const fn form(form: usize) -> Self {
        Self { form, delay_ns: None, second_delay_ns: None, percentile: None, fraction: None }
    }
}

/// What a policy needs of its cell, of its driver and of its servers. A hook of a pick or of a hedge
/// is called only if its descriptor declares that it is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The number of slots of each server, because queries wait until a slot is free.
    pub slots: bool,
    /// Servers that can stop copies.
    pub cancellation: bool,
    /// [`crate::Event::Tick`], even if no limit sets a timer.
    pub timers: bool,
    /// The starts and ends of copies, and servers that return.
    pub copies: bool,
    /// To choose the servers of queries that have waited. Otherwise, a server that has room takes
    /// the oldest waiting query that it may serve.
    pub waiting: bool,
    /// The load that servers report ([`crate::Event::Feedback`]).
    pub feedback: bool,
    /// Probes ([`crate::Action::Probe`]).
    pub probes: bool,
    /// The number of clients that share the servers ([`crate::Tuning::clients`]).
    pub clients: bool,
    /// The expected costs of queries ([`crate::Arrive::cost_hint`]).
    pub hints: bool,
    /// The sizes of responses ([`crate::Event::Received`]). They come with the ends of copies, so
    /// this is of use only together with `copies`.
    pub bytes: bool,
    /// Servers that serve duplicates after all other copies ([`crate::stage::Priority`]). Picks do
    /// not count such duplicates as load.
    pub priority: bool,
    /// The hedge budget, which limits its duplicates. Baselines do not have one.
    pub budget: bool,
    /// Reports of when servers begin copies ([`crate::Event::Started`]).
    pub starts: bool,
    /// Forecasts of when copies end ([`crate::Event::Forecast`]).
    pub forecasts: bool,
    /// Servers that always finish a copy once they have begun it, in the simulator.
    pub finishing: bool,
}

impl Needs {
    /// No needs.
    pub const NOTHING: Self = Self {
        slots: false,
        cancellation: false,
        timers: false,
        copies: false,
        waiting: false,
        feedback: false,
        probes: false,
        clients: false,
        hints: false,
        bytes: false,
        priority: false,
        budget: false,
        starts: false,
        forecasts: false,
        finishing: false,
    };

    /// The needs of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            slots: self.slots | other.slots,
            cancellation: self.cancellation | other.cancellation,
            timers: self.timers | other.timers,
            copies: self.copies | other.copies,
            waiting: self.waiting | other.waiting,
            feedback: self.feedback | other.feedback,
            probes: self.probes | other.probes,
            clients: self.clients | other.clients,
            hints: self.hints | other.hints,
            bytes: self.bytes | other.bytes,
            priority: self.priority | other.priority,
            budget: self.budget | other.budget,
            starts: self.starts | other.starts,
            forecasts: self.forecasts | other.forecasts,
            finishing: self.finishing | other.finishing,
        }
    }
}

/// What a hedge does whatever happens. A cell asks for it when it is built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conduct {
    /// The loser is cancelled when a copy wins (cleanup cancellation).
    pub cleans_up: bool,
    /// The hedge stops copies to make room for queries that wait (pre-emptive cancellation).
    pub preempts: bool,
    /// The hedge biases servers ([`crate::Core::bias`]).
    pub biases: bool,
}

/// What a cell that is compiled for a pick or a hedge knows about it, and leaves out.
pub trait Compiled {
    /// Its needs. `None` for a boxed one, which states its needs when the cell is built.
    const NEEDS: Option<Needs>;

    /// Whether it is a hedge that starts further copies.
    const HEDGES: bool = true;
}

impl<B> Descriptor<B> {
    /// Whether a form has this argument.
    pub(crate) fn has(&'static self, argument: &str) -> bool {
        self.pieces().any(|(_, mut pieces)| pieces.any(|piece| piece == argument))
    }

    /// The part with these arguments.
    pub const fn with(&'static self, arguments: Arguments) -> Part<B> {
        Part { of: self, arguments }
    }

    /// Returns every form. A name without arguments is its only form.
    pub(crate) fn all_forms(&'static self) -> &'static [&'static str] {
        if self.forms.is_empty() { core::slice::from_ref(&self.name) } else { self.forms }
    }

    /// Returns the pieces of each form, without the optional word and with it. The first piece is
    /// the name.
    fn variants(&'static self) -> impl Iterator<Item = (&'static str, Option<&'static str>)> {
        self.all_forms()
            .iter()
            .flat_map(|form| match form.split_once("[:") {
                None => [Some((*form, None)), None],
                Some((kept, word)) => {
                    [Some((kept, None)), Some((kept, Some(word.trim_end_matches(']'))))]
                }
            })
            .flatten()
    }

    /// Returns the number and the pieces of each variant.
    pub(crate) fn pieces(
        &'static self,
    ) -> impl Iterator<Item = (usize, impl Iterator<Item = &'static str> + Clone)> {
        let split =
            |(kept, word): (&'static str, Option<&'static str>)| kept.split(':').chain(word);
        self.variants().map(split).enumerate()
    }
}

impl<B> fmt::Debug for Descriptor<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A part of a policy with its arguments.
pub struct Part<B: 'static> {
    /// What is known of it by its name.
    pub of: &'static Descriptor<B>,
    /// Its arguments.
    pub arguments: Arguments,
}

impl<B> Part<B> {
    /// What it needs.
    #[must_use]
    pub fn needs(&self) -> Needs {
        (self.of.needs)(&self.arguments)
    }

    /// Whether it is this one, whatever its arguments.
    #[must_use]
    pub fn is(&self, other: &Descriptor<B>) -> bool {
        // A part of one's own may have the name of another.
        core::ptr::eq(self.of, other)
    }
}

impl<B> Clone for Part<B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for Part<B> {}

impl<B> PartialEq for Part<B> {
    fn eq(&self, other: &Self) -> bool {
        self.is(other.of) && self.arguments == other.arguments
    }
}

impl<B> fmt::Debug for Part<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.of.name, self.arguments)
    }
}

impl<B> fmt::Display for Part<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Arguments { form, delay_ns, second_delay_ns, percentile, fraction } = self.arguments;
        let mut delays = [delay_ns, second_delay_ns].into_iter().flatten();
        let Some((_, pieces)) = self.of.pieces().nth(form) else {
            return f.write_str(self.of.name);
        };
        for (at, piece) in pieces.enumerate() {
            if at > 0 {
                f.write_str(":")?;
            }
            match piece {
                "D" => write!(f, "{}", crate::duration::format(delays.next().unwrap_or_default()))?,
                "pN" => write!(f, "p{}", percentile.unwrap_or_default())?,
                "Q" => write!(f, "{}", fraction.unwrap_or_default())?,
                word => f.write_str(word)?,
            }
        }
        Ok(())
    }
}
