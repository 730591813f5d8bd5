//! The source of the timestamps for requests and responses, and the resources that it needs during
//! a run.

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

/// The source of the timestamps for requests and responses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StampsBy {
    /// This program: latencies include the network stack of this machine and the program's wake-up.
    #[default]
    User,
    /// The kernel, with software timestamps (`SO_TIMESTAMPING`). The time in the network stack is
    /// then reported separately.
    Kernel,
    /// The network device, with its own clock (PHC). Its timestamps are the closest to the wire.
    /// The device must be able to timestamp all packets; configuring it requires `CAP_NET_ADMIN`.
    Hardware,
    /// This program, bypassing the stack (AF_XDP). Works only for UDP over IPv4, with one
    /// connection to a server on another machine, and with the required privileges.
    Xdp,
}

/// The way in which a run bypasses the network stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastStack {
    /// The name of the device.
    pub device: String,
    /// The number of receive queues. Packets that arrive on any other queue than the first go
    /// through the stack.
    pub queues: usize,
    /// Whether responses are redirected in the device's driver. Otherwise they are redirected where
    /// they enter the network stack.
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

    /// Returns the clock that the sockets' timestamps use.
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
        "datagrams of {bytes} bytes; --stamps xdp allows at most {most}: use a smaller --size"
    )))
}
