//! What no library does safely: calls of the system. All of the unsafe code is here, each block with its reason.
#![allow(unsafe_code)]

pub(crate) mod options;
