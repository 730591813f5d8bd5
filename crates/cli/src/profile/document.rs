//! The result as JSON.

use curtail_probe::profile::{Lost, Profile, Traced};
use curtail_probe::rank::{Guide, Ranking};
use serde::Serialize;

use super::table;
use crate::verdict::Typed;

/// The document of `curtail profile`.
#[derive(Serialize)]
pub(super) struct Document<'a> {
    target: &'a str,
    #[serde(flatten)]
    ranking: &'a Ranking,
    /// Whether mean and variance point to the same stage.
    verdict: Typed<Guide>,
    /// `None` for traces.
    cost: Option<Cost>,
    lost: u64,
    lost_by: &'a [Lost],
    /// For traces: the clocks, the uncertain times, and how the traces were interpreted.
    #[serde(skip_serializing_if = "Option::is_none")]
    traces: Option<&'a Traced>,
}

#[derive(Serialize)]
struct Cost {
    ns_per_request: f64,
    share: f64,
    sampling: String,
}

impl<'a> Document<'a> {
    pub(super) fn new(profile: &'a Profile, ranking: &'a Ranking) -> Self {
        let cost = profile.cost.map(|of| Cost {
            ns_per_request: of.ns_per_request,
            share: of.share,
            sampling: format!("1/{}", of.one_in),
        });
        Document {
            target: &profile.target,
            ranking,
            verdict: Typed::new(ranking.guide.clone(), table::guide(ranking)),
            cost,
            lost: table::lost_count(profile),
            lost_by: &profile.lost,
            traces: profile.traces.as_ref(),
        }
    }
}
