//! The interface of Envoy's dynamic modules, version 0.2.0, which Envoy 1.40 and 1.41 load.
//!
//! This module has all unsafe code of the crate: `raw` declares Envoy's functions, `stream` and
//! `hosts` call them, and `hooks` has the functions that Envoy calls. Source: Envoy,
//! `source/extensions/dynamic_modules/abi/abi.h`.

mod desk;
mod hooks;
mod hosts;
mod log;
mod raw;
mod stream;

pub(crate) use desk::{Desk, OpenDesk};
pub(crate) use hosts::{HostSet, Position};
pub(crate) use log::EnvoyLog;
pub(crate) use raw::{Field, Slice};
pub(crate) use stream::{Fields, Headers, Scheduler, Stream};

/// What Envoy does next with a part of a message.
pub(crate) trait Status {
    /// The next filter gets it.
    const PASS: Self;
    /// It waits here.
    const HOLD: Self;
}

impl Status for () {
    const PASS: Self = ();
    const HOLD: Self = ();
}

/// What Envoy does next with the head of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum HeadStatus {
    Continue = 0,
    Stop = 1,
}

impl Status for HeadStatus {
    const PASS: Self = Self::Continue;
    const HOLD: Self = Self::Stop;
}

/// What Envoy does next with a part of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum BodyStatus {
    /// The next filter gets it, and the head if that has waited.
    Continue = 0,
    /// It waits in a buffer. A body that exceeds the buffer's limit fails.
    Buffer = 1,
    /// It waits in a buffer. Its sender pauses while the buffer is full.
    Watermark = 2,
}

impl Status for BodyStatus {
    const PASS: Self = Self::Continue;
    const HOLD: Self = Self::Buffer;
}

/// What Envoy does next with the trailers of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum TrailersStatus {
    /// The next filter gets them, and everything before them.
    Continue = 0,
    Stop = 1,
}

impl Status for TrailersStatus {
    const PASS: Self = Self::Continue;
    const HOLD: Self = Self::Stop;
}
