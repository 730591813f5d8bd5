//! G/G/k: any arrivals, any service, k servers behind one queue, by their first two moments.
//!
//! Allen and Cunneen scale the mean wait of M/M/k by (cₐ²+cₛ²)/2. It is exact for M/M/k, for one
//! server it is Kingman's heavy-traffic formula, and it is best at high utilization. The wait is
//! taken for zero or exponential, as in M/M/k, with Erlang's C as the probability that there is
//! one.
//!
//! Source: Allen, "Probability, Statistics and Queueing Theory", 1978; compared with others in
//! Whitt, "Approximations for the GI/G/m queue", 1993. Cost: O(k).

use super::{Arrivals, Service, erlang_c, from_mean_wait};
use crate::check;
use crate::error::ModelError;
use crate::tail::{Basis, Prediction};

/// Predicts G/G/k by Allen and Cunneen. `servers` is 1 to 1,000,000.
pub fn ggk(arrivals: Arrivals, service: Service, servers: u32) -> Result<Prediction, ModelError> {
    let offered = arrivals.check()?.rate * service.check()?.mean;
    let servers = check::count("number of servers", servers)?;
    let utilization = check::stable(offered / f64::from(servers))?;
    let waits = erlang_c(offered, servers)?;
    let markovian = waits / (f64::from(servers) - offered) * service.mean;
    let mean_wait = markovian * (arrivals.scv + service.scv) / 2.0;
    let wait = (mean_wait, Basis::Approximation("Allen and Cunneen"));
    from_mean_wait("G/G/k", arrivals.rate, utilization, service.mean, wait, waits)
}
