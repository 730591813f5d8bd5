//! What takes the timestamps of requests and responses, and what it needs during a run.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::conversion::StampClock;
use super::keeper::{Keeper, Stamping};
use super::nic::Nic;
use crate::plan::Plan;
use crate::plan::error::{LoadError, PlanError};
use curtail_xdp::{Bypass, bpf::Mode};

/// What takes the timestamps of requests and responses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StampsBy {
    /// This program: latencies include the network stack of this machine and the program's wake-up.
    #[default]
    User,
    /// The kernel, by software timestamps (`SO_TIMESTAMPING`): time in the stack is reported separately.
    Kernel,
    /// The network device, by its own clock (PHC): its timestamps are the nearest to the wire. It must be able
    /// to timestamp all packets; to configure it takes `CAP_NET_ADMIN`.
    Hardware,
    /// This program, which bypasses the stack (AF_XDP). UDP over IPv4 only, by one connection, to a server
    /// that is not on this machine, and with the privileges for it.
    Xdp,
}

/// The bypass of the network stack in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastStack {
    /// The device.
    pub device: String,
    /// The number of receive queues. Packets of queues other than the first come through the stack.
    pub queues: usize,
    /// True if responses are redirected in the device's driver; otherwise at the entrance of the stack.
    pub in_driver: bool,
}

#[derive(Debug)]
pub(crate) enum Source {
    User,
    Kernel(Keeper),
    Hardware(Nic),
    Xdp(Arc<Bypass>),
}

impl Source {
    pub(crate) fn prepare(plan: &Plan, addresses: &[SocketAddr]) -> Result<Source, LoadError> {
        match plan.stamps {
            StampsBy::User => Ok(Source::User),
            StampsBy::Kernel => Ok(Source::Kernel(Keeper::new().map_err(LoadError::Stamps)?)),
            StampsBy::Hardware => {
                Ok(Source::Hardware(Nic::prepare(addresses).map_err(LoadError::Stamps)?))
            }
            StampsBy::Xdp => {
                let first = addresses.iter().find(|address| address.is_ipv4());
                let Some(address) = first.or(addresses.first()) else {
                    let why = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
                    return Err(LoadError::Stamps(why));
                };
                let bypass = Bypass::prepare(*address).map_err(LoadError::Stamps)?;
                fits(plan, bypass.payload_max())?;
                Ok(Source::Xdp(Arc::new(bypass)))
            }
        }
    }

    pub(crate) fn stamping(&self) -> Option<Stamping> {
        match self {
            Source::User => None,
            Source::Kernel(keeper) => Some(keeper.stamping.clone()),
            Source::Hardware(nic) => {
                Some(Stamping { hardware: vec![nic.device.clone()], ..Stamping::default() })
            }
            Source::Xdp(bypass) => {
                let past_stack = Some(PastStack {
                    device: bypass.device().to_owned(),
                    queues: bypass.queues(),
                    in_driver: bypass.mode() == Mode::Driver,
                });
                Some(Stamping { past_stack, ..Stamping::default() })
            }
        }
    }

    /// The clock of the timestamps that sockets deliver.
    pub(crate) fn clock(&self) -> Option<StampClock> {
        match self {
            Source::Kernel(_) => Some(StampClock::System),
            Source::Hardware(nic) => Some(StampClock::Device(Arc::clone(&nic.phc))),
            Source::User | Source::Xdp(_) => None,
        }
    }

    pub(crate) fn bypass(&self) -> Option<&Arc<Bypass>> {
        match self {
            Source::Xdp(bypass) => Some(bypass),
            _ => None,
        }
    }
}

pub(crate) fn fits(plan: &Plan, most: usize) -> Result<(), PlanError> {
    let bytes = plan.protocol.datagram_bytes;
    if bytes <= most {
        return Ok(());
    }
    Err(PlanError::Value(format!(
        "datagrams of {bytes} bytes; past the network stack at most {most} fit: use a smaller --size"
    )))
}
