//! The fields that the writers append to a head.

use bytes::BytesMut;

use crate::h1::fields::Fields;
use crate::h1::token::{is_token, is_value, put_field};

/// Why a head is not written: a recipient could read it as something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The method is not a token.
    #[error("the method is not a token")]
    Method,
    /// The target is empty or has bytes other than visible ASCII.
    #[error("the target is empty or has bytes other than visible ASCII")]
    Target,
    /// A field name is not a token.
    #[error("a field name is not a token")]
    FieldName,
    /// A field value has a control byte such as CR, LF or NUL.
    #[error("a control byte in a field value")]
    FieldValue,
    /// The status code may not be sent here.
    #[error("status code {0} cannot be sent here")]
    Status(u16),
    /// A request body cannot last until the close.
    #[error("a request body needs a length")]
    UntilClose,
}

/// Header fields that can be written: an iterator of names and values, [`Relayed`] for the fields of
/// a received head, or [`Joined`] for both.
pub trait HeaderLines {
    /// Appends the fields to `buf`, except for those whose names `skip` returns true for. On an
    /// error, `buf` may end with some of the fields.
    fn write_to(self, buf: &mut BytesMut, skip: impl Fn(&[u8]) -> bool) -> Result<(), WriteError>;
}

/// Names and values are checked.
impl<I, N, V> HeaderLines for I
where
    I: IntoIterator<Item = (N, V)>,
    N: AsRef<[u8]>,
    V: AsRef<[u8]>,
{
    fn write_to(self, buf: &mut BytesMut, skip: impl Fn(&[u8]) -> bool) -> Result<(), WriteError> {
        for (name, value) in self {
            let (name, value) = (name.as_ref(), value.as_ref());
            if skip(name) {
                continue;
            }
            if !is_token(name) {
                return Err(WriteError::FieldName);
            }
            if !is_value(value) {
                return Err(WriteError::FieldValue);
            }
            put_field(buf, name, value);
        }
        Ok(())
    }
}

/// The [end-to-end](Fields::end_to_end) fields of a received head whose names `keep` returns true
/// for. They are not checked again, and consecutive ones are copied together.
#[derive(Debug, Clone, Copy)]
pub struct Relayed<'a, F> {
    /// The head.
    pub fields: &'a Fields,
    /// Returns whether to keep a field, from its name.
    pub keep: F,
}

impl<F: Fn(&[u8]) -> bool> HeaderLines for Relayed<'_, F> {
    fn write_to(self, buf: &mut BytesMut, skip: impl Fn(&[u8]) -> bool) -> Result<(), WriteError> {
        self.fields.relay(buf, |name| (self.keep)(name) && !skip(name));
        Ok(())
    }
}

/// Fields that were checked and rendered once, to be written often.
#[derive(Debug, Clone)]
pub struct Rendered(BytesMut);

impl Rendered {
    /// Checks and renders fields.
    ///
    /// # Errors
    ///
    /// A name or a value is not valid.
    pub fn new(fields: impl HeaderLines) -> Result<Self, WriteError> {
        let mut lines = BytesMut::new();
        fields.write_to(&mut lines, |_| false)?;
        Ok(Self(lines))
    }
}

/// Writes all fields, whatever `skip` returns for their names.
impl HeaderLines for &Rendered {
    fn write_to(self, buf: &mut BytesMut, _: impl Fn(&[u8]) -> bool) -> Result<(), WriteError> {
        buf.extend_from_slice(&self.0);
        Ok(())
    }
}

/// The fields of `0`, and after them those of `1`.
#[derive(Debug, Clone, Copy)]
pub struct Joined<A, B>(pub A, pub B);

impl<A: HeaderLines, B: HeaderLines> HeaderLines for Joined<A, B> {
    fn write_to(self, buf: &mut BytesMut, skip: impl Fn(&[u8]) -> bool) -> Result<(), WriteError> {
        self.0.write_to(buf, &skip)?;
        self.1.write_to(buf, skip)
    }
}
