//! What there is once per process.

use std::sync::OnceLock;
use std::thread::{self, ThreadId};

use curtail_runtime::Timers;
use tokio::runtime::{Builder, Handle};

use crate::abi::EnvoyLog;

/// What all services of the process share.
pub(crate) struct Module {
    /// Runs epochs, probes and the timers of all cells.
    pub(crate) runtime: Handle,
    pub(crate) timers: Timers,
    /// Determines how cells break ties.
    pub(crate) seed: u64,
    /// Envoy's main thread, which loads configurations.
    main: ThreadId,
}

/// The variable of the environment that sets the seed. Otherwise it is the number of the process.
const SEED: &str = "CURTAIL_SEED";

static MODULE: OnceLock<Module> = OnceLock::new();

/// Starts the thread of the module, which also runs `work`.
pub(crate) fn start(work: impl Future<Output = ()> + Send + 'static) {
    MODULE.get_or_init(|| {
        // A host that loads the module twice has a subscriber already.
        let _ = tracing::subscriber::set_global_default(EnvoyLog);
        std::panic::set_hook(Box::new(|panic| {
            tracing::error!("panicked, which is a bug; the request gets a 500: {panic}");
        }));
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("the system has a descriptor left for timers");
        let handle = runtime.handle().clone();
        let spawned = thread::Builder::new().name("curtail".into()).spawn(move || {
            runtime.block_on(work);
        });
        spawned.expect("the system has a thread left for timers");
        let timers = {
            let _runtime = handle.enter();
            Timers::precise()
        };
        let given = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| std::process::id().into());
        Module { runtime: handle, timers, seed, main: thread::current().id() }
    });
}

/// Returns the module, which Envoy has started.
pub(crate) fn get() -> &'static Module {
    MODULE.get().expect("Envoy starts a module before it uses it")
}

impl Module {
    /// Whether this is Envoy's main thread.
    pub(crate) fn is_main(&self) -> bool {
        thread::current().id() == self.main
    }
}
