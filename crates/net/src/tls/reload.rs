//! A configuration that is built from files and replaced when their contents change.
//!
//! The contents are compared, not the times of modification: a file may be replaced twice within
//! the resolution of its timestamp, or restored with an old one.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use super::error::TlsError;
use super::pem::Contents;

/// What a poll of the files led to. A poll that finds no change is not reported.
#[derive(Debug)]
pub enum Reload {
    /// The files changed, and new handshakes use them.
    Reloaded,
    /// The files cannot be loaded, and new handshakes use the previous ones. Reported once for
    /// each problem.
    Failed(TlsError),
}

/// What to build, and from which files.
pub(super) trait Specification: fmt::Debug + Send + Sync + 'static {
    type Built: Send + Sync;

    fn files(&self) -> Vec<&Path>;
    fn build(&self, contents: &Contents) -> Result<Self::Built, TlsError>;
}

pub(super) struct Reloadable<S: Specification> {
    specification: S,
    /// Held during a reload, so that reloads happen one after the other.
    digest: Mutex<u64>,
    built: RwLock<Arc<S::Built>>,
}

impl<S: Specification> Reloadable<S> {
    pub(super) fn load(specification: S) -> Result<Reloadable<S>, TlsError> {
        let contents = Contents::read(specification.files())?;
        let built = specification.build(&contents)?;
        Ok(Reloadable {
            specification,
            digest: Mutex::new(contents.digest()),
            built: RwLock::new(Arc::new(built)),
        })
    }

    pub(super) fn specification(&self) -> &S {
        &self.specification
    }

    /// Returns the current configuration.
    pub(super) fn current(&self) -> Arc<S::Built> {
        Arc::clone(&self.built.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Builds the configuration again if the files changed. Returns whether they did.
    pub(super) fn reload(&self) -> Result<bool, TlsError> {
        let mut digest = self.digest.lock().unwrap_or_else(PoisonError::into_inner);
        let contents = Contents::read(self.specification.files())?;
        if contents.digest() == *digest {
            return Ok(false);
        }
        let built = Arc::new(self.specification.build(&contents)?);
        *self.built.write().unwrap_or_else(PoisonError::into_inner) = built;
        *digest = contents.digest();
        Ok(true)
    }

    /// Replaces the configuration that was built from the current files, unless a reload replaced it
    /// already.
    pub(super) fn replace(&self, old: &Arc<S::Built>, new: S::Built) {
        let mut built = self.built.write().unwrap_or_else(PoisonError::into_inner);
        if Arc::ptr_eq(&built, old) {
            *built = Arc::new(new);
        }
    }

    /// Reloads at every interval, on a thread that may block. Never returns, except when the
    /// runtime shuts down.
    pub(super) async fn watch(self: &Arc<Self>, interval: Duration, on_event: impl Fn(Reload)) {
        let mut ticks = tokio::time::interval(interval.max(Duration::from_millis(1)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        let mut reported: Option<String> = None;
        loop {
            ticks.tick().await;
            let this = Arc::clone(self);
            let Ok(result) = tokio::task::spawn_blocking(move || this.reload()).await else {
                return;
            };
            match result {
                Ok(changed) => {
                    reported = None;
                    if changed {
                        on_event(Reload::Reloaded);
                    }
                }
                Err(error) => {
                    let text = error.to_string();
                    if reported.as_ref() != Some(&text) {
                        on_event(Reload::Failed(error));
                        reported = Some(text);
                    }
                }
            }
        }
    }
}

impl<S: Specification> fmt::Debug for Reloadable<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloadable")
            .field("specification", &self.specification)
            .finish_non_exhaustive()
    }
}
