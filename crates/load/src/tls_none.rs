//! In place of TLS, in a build without it.

use crate::error::PlanError;
use crate::plan::Plan;
use crate::session::Session;

/// There is none.
#[derive(Debug)]
pub(crate) enum TlsClient {}

impl TlsClient {
    pub(crate) fn prepare(plan: &Plan) -> Result<TlsClient, PlanError> {
        Err(PlanError::Protocol(format!(
            "{}:// needs TLS, which this build has not; build it with the feature `tls`",
            plan.target.scheme()
        )))
    }

    pub(crate) fn wrap(&self, _: Box<dyn Session>) -> Box<dyn Session> {
        match *self {}
    }
}
