//! The parts that names of policies consist of: ours, and those of one's own.

use alloc::format;
use alloc::vec::Vec;

use crate::balance::{NewPick, PICKS};
use crate::config::ConfigError;
use crate::descriptor::Descriptor;
use crate::hedge::{HEDGES, NewHedge};
use crate::rate::{NewRate, RATES};

/// Names that are no part, or only one of the simulator.
const RESERVED: [&str; 6] = ["psq", "bounded", "unpaced", "idealized", "o1", "oracle"];

/// The parts that names of policies consist of: ours, and those of one's own. All of them combine,
/// and the policies that [`Self::parse`] returns run wherever ours do.
///
/// ```
/// use curtail_kernel::balance::{NewPick, Pick, Wanted};
/// use curtail_kernel::{Catalog, Descriptor, Levels, Needs, Rng, ServerId};
///
/// #[derive(Debug)]
/// struct First;
///
/// impl Pick for First {
///     fn pick(&mut self, copy: Wanted, levels: Levels<'_>, _: &mut Rng) -> Option<ServerId> {
///         levels.available().find(|&server| !copy.avoid.contains(server))
///     }
/// }
///
/// static FIRST: Descriptor<NewPick> =
///     Descriptor::pick("first", "the first server", |_| Needs::NOTHING, |_, _| Box::new(First));
///
/// let catalog = Catalog::new().with_pick(&FIRST)?;
/// assert_eq!(catalog.parse("delayed:5ms+first", None)?.to_string(), "delayed:5ms+first");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    picks: Vec<&'static Descriptor<NewPick>>,
    rates: Vec<&'static Descriptor<NewRate>>,
    hedges: Vec<&'static Descriptor<NewHedge>>,
}

impl Catalog {
    /// Returns the catalog of our parts.
    #[must_use]
    pub const fn new() -> Self {
        Self { picks: Vec::new(), rates: Vec::new(), hedges: Vec::new() }
    }

    /// Adds a pick.
    ///
    /// # Errors
    /// Another part has its name, or it has a form that cannot be parsed.
    pub fn with_pick(mut self, pick: &'static Descriptor<NewPick>) -> Result<Self, ConfigError> {
        self.check(pick)?;
        self.picks.push(pick);
        Ok(self)
    }

    /// Adds a rate.
    ///
    /// # Errors
    /// See [`Self::with_pick`].
    pub fn with_rate(mut self, rate: &'static Descriptor<NewRate>) -> Result<Self, ConfigError> {
        self.check(rate)?;
        self.rates.push(rate);
        Ok(self)
    }

    /// Adds a hedge.
    ///
    /// # Errors
    /// See [`Self::with_pick`].
    pub fn with_hedge(mut self, hedge: &'static Descriptor<NewHedge>) -> Result<Self, ConfigError> {
        self.check(hedge)?;
        self.hedges.push(hedge);
        Ok(self)
    }

    /// Returns every pick.
    pub fn picks(&self) -> impl Iterator<Item = &'static Descriptor<NewPick>> + '_ {
        PICKS.iter().chain(&self.picks).copied()
    }

    /// Returns every rate.
    pub fn rates(&self) -> impl Iterator<Item = &'static Descriptor<NewRate>> + '_ {
        RATES.iter().chain(&self.rates).copied()
    }

    /// Returns every hedge.
    pub fn hedges(&self) -> impl Iterator<Item = &'static Descriptor<NewHedge>> + '_ {
        HEDGES.iter().chain(&self.hedges).copied()
    }

    /// Returns the forms of all names, for help and error texts: picks, hedges, and combinations.
    #[must_use]
    pub fn forms(&self) -> Vec<&'static str> {
        self.forms_of(|_| true)
    }

    /// Returns the forms of the policies that run on real servers.
    #[must_use]
    pub fn live_forms(&self) -> Vec<&'static str> {
        self.forms_of(|hedge| hedge.builds.simulator_only.is_none())
    }

    fn forms_of(&self, runs: fn(&Descriptor<NewHedge>) -> bool) -> Vec<&'static str> {
        let mut forms: Vec<_> = PICKS.iter().flat_map(|pick| pick.all_forms()).copied().collect();
        forms.extend(["c3:literal", "bounded:N", "psq"]);
        let hedges = |list: &[&'static Descriptor<NewHedge>]| -> Vec<&'static str> {
            let live = list.iter().filter(|hedge| runs(hedge));
            live.flat_map(|hedge| hedge.all_forms()).copied().collect()
        };
        forms.extend(hedges(HEDGES));
        forms.extend(["laedge+bounded:N", "rescue+bounded:N"]);
        forms.extend(self.picks.iter().flat_map(|pick| pick.all_forms()));
        forms.extend(hedges(&self.hedges));
        forms.extend(self.rates.iter().flat_map(|rate| rate.all_forms()));
        forms
    }

    fn check<B>(&self, part: &'static Descriptor<B>) -> Result<(), ConfigError> {
        let name = part.name;
        let names = self.picks().map(|of| of.name).chain(self.rates().map(|of| of.name));
        let mut names = names.chain(self.hedges().map(|of| of.name)).chain(RESERVED);
        if names.any(|other| other == name) {
            return Err(ConfigError(format!(
                "{name:?} is the name of another part; use a new one"
            )));
        }
        let is_word = |piece: &str| {
            let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            !piece.is_empty() && piece.chars().all(fits)
        };
        let is_argument = |piece: &str| ["D", "pN", "Q"].contains(&piece) || is_word(piece);
        let begins =
            |first: Option<&str>| first.is_some_and(|of| of.trim_end_matches("+PICK") == name);
        let parses =
            part.pieces().all(|(_, mut pieces)| begins(pieces.next()) && pieces.all(is_argument));
        if is_word(name) && parses {
            return Ok(());
        }
        Err(ConfigError(format!(
            "part {name:?} has the forms {:?}; begin each with the name, in small letters, digits \
             and hyphens, and separate it by colons from words and the arguments D, pN and Q",
            part.all_forms()
        )))
    }
}
