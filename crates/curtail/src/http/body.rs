//! A body that is complete, and can be repeated, or that is a stream.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::HeaderMap;
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::error::BoxError;

/// The body of a request or a response.
#[derive(Default)]
pub struct Body(pub(super) Kind);

#[derive(Default)]
pub(super) enum Kind {
    #[default]
    Empty,
    Whole(Whole),
    Streaming(BoxBody),
}

pub(super) type BoxBody = Pin<Box<dyn HttpBody<Data = Bytes, Error = BoxError> + Send>>;

/// A complete body. Its pieces are taken as they are sent.
#[derive(Clone, Default)]
pub(super) struct Whole {
    /// In reverse order.
    pub(super) pieces: Vec<Bytes>,
    pub(super) trailers: Option<HeaderMap>,
}

impl Whole {
    fn len(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.len() as u64).sum()
    }
}

impl Body {
    /// Returns an empty body.
    #[must_use]
    pub fn empty() -> Self {
        Self(Kind::Empty)
    }

    /// Returns a body that is sent once, while it is produced.
    pub fn streaming<B>(body: B) -> Self
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self(Kind::Streaming(Box::pin(Boxed(Box::pin(body)))))
    }

    /// Returns the same body, unless it is a stream.
    #[must_use]
    pub fn try_clone(&self) -> Option<Self> {
        match &self.0 {
            Kind::Empty => Some(Self::empty()),
            Kind::Whole(whole) => Some(Self(Kind::Whole(whole.clone()))),
            Kind::Streaming(_) => None,
        }
    }

    /// Reads what is there already, up to a number of bytes. If that is the whole body, the result
    /// can be repeated. Otherwise it is a stream.
    pub(super) fn read_ahead<B>(body: B, most: usize) -> Self
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let mut body: BoxBody = Box::pin(Boxed(Box::pin(body)));
        let (mut pieces, mut trailers, mut error, mut bytes) = (Vec::new(), None, None, 0);
        let is_whole = loop {
            if body.is_end_stream() {
                break true;
            }
            if bytes > most {
                break false;
            }
            // A body that is not ready is polled again, with a waker that counts.
            let next = std::future::poll_fn(|context| body.as_mut().poll_frame(context));
            match next.now_or_never() {
                None => break false,
                Some(None) => break true,
                Some(Some(Err(broken))) => {
                    error = Some(broken);
                    break false;
                }
                Some(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => {
                        bytes += data.len();
                        pieces.push(data);
                    }
                    Err(frame) => trailers = frame.into_trailers().ok(),
                },
            }
        };
        pieces.reverse();
        match (is_whole, pieces.is_empty() && trailers.is_none()) {
            (true, true) => Self::empty(),
            (true, false) => Self(Kind::Whole(Whole { pieces, trailers })),
            (false, _) => {
                let read = Whole { pieces, trailers };
                Self(Kind::Streaming(Box::pin(Resumed { read, error, rest: body })))
            }
        }
    }

    /// Returns the trailers of a body that is complete.
    pub(super) fn whole_trailers(&self) -> Option<&HeaderMap> {
        match &self.0 {
            Kind::Whole(whole) => whole.trailers.as_ref(),
            Kind::Empty | Kind::Streaming(_) => None,
        }
    }

    pub(super) fn is_whole(&self) -> bool {
        matches!(self.0, Kind::Empty | Kind::Whole(_))
    }
}

impl<T: Into<Bytes>> From<T> for Body {
    fn from(bytes: T) -> Self {
        let bytes = bytes.into();
        match bytes.is_empty() {
            true => Self::empty(),
            false => Self(Kind::Whole(Whole { pieces: vec![bytes], trailers: None })),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Empty => f.write_str("Body::empty()"),
            Kind::Whole(whole) => write!(f, "Body({} bytes)", whole.len()),
            Kind::Streaming(_) => f.write_str("Body(stream)"),
        }
    }
}

/// The result of polling a body.
pub(super) type Polled = Poll<Option<Result<Frame<Bytes>, BoxError>>>;

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Polled {
        match &mut self.0 {
            Kind::Empty => Poll::Ready(None),
            Kind::Whole(whole) => {
                let data = whole.pieces.pop().map(Frame::data);
                let frame = data.or_else(|| whole.trailers.take().map(Frame::trailers));
                Poll::Ready(frame.map(Ok))
            }
            Kind::Streaming(body) => body.as_mut().poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Empty => true,
            Kind::Whole(whole) => whole.pieces.is_empty() && whole.trailers.is_none(),
            Kind::Streaming(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Empty => SizeHint::with_exact(0),
            Kind::Whole(whole) => SizeHint::with_exact(whole.len()),
            Kind::Streaming(body) => body.size_hint(),
        }
    }
}

/// Converts the errors of a body.
struct Boxed<B>(Pin<Box<B>>);

impl<B> HttpBody for Boxed<B>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Polled {
        let frame = ready!(self.0.as_mut().poll_frame(context));
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

/// A stream of which a part has been read.
struct Resumed {
    read: Whole,
    error: Option<BoxError>,
    rest: BoxBody,
}

impl HttpBody for Resumed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Polled {
        if let Some(piece) = self.read.pieces.pop() {
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        if let Some(error) = self.error.take() {
            return Poll::Ready(Some(Err(error)));
        }
        match self.read.trailers.take() {
            Some(trailers) => Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
            None => self.rest.as_mut().poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        let Self { read: Whole { pieces, trailers }, error, rest } = self;
        pieces.is_empty() && trailers.is_none() && error.is_none() && rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let read = self.read.len();
        let rest = self.rest.size_hint();
        let mut hint = SizeHint::new();
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + read);
        }
        hint.set_lower(rest.lower() + read);
        hint
    }
}
