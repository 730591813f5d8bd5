//! In place of schemas, in a build without them.

use std::path::Path;

use bytes::Bytes;

use crate::error::PlanError;

/// There is none.
#[derive(Debug)]
pub(super) enum Schema {}

impl Schema {
    pub(super) fn read(path: &Path, _: &str) -> Result<Schema, PlanError> {
        Err(PlanError::Protocol(format!(
            "--proto {}: this build reads no schemas; build it with the feature `schema`, or write \
             messages as {{\"base64\": \"...\"}}",
            path.display()
        )))
    }

    pub(super) fn encode(&self, _: &str) -> Result<Bytes, String> {
        match *self {}
    }
}
