//! One connection: how long it may be silent, how slowly it may read, and what it is told when it is ended for it.
//!
//! ```text
//!  Fresh ──first byte──► Head ──whole──► Busy ──last byte of the answer──► Idle ──first byte──► Head …
//!    └─ header time: closed  └─ header time: 408   │ a blocked writer: allowance, then cut off   └─ idle time: closed
//!                                                  └ the client hung up: the request is dropped
//! ```
//!
//! A connection that is cut off drops its request, and that cancels the turn, at whatever stage it is.

use super::{Api, ApiError};
use crate::config::ApiConfig;
use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::{Request, Response};
use futures_util::future::BoxFuture;
use hyper::body::{Frame, Incoming, SizeHint};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Interval, MissedTickBehavior, Sleep};
use tower::ServiceExt;

/// How often a busy connection is asked whether its client is still there. The reader of requests would notice it only where
/// the client has sent nothing behind its request.
const LOOK: Duration = Duration::from_millis(500);
/// How long the end of a connection waits for what the client still sends: closed on unread bytes, the kernel would throw our
/// last answer away.
const LINGER: Duration = Duration::from_secs(1);
/// Most bytes that are read for it.
const LINGER_BYTES: usize = 1024 * 1024;

/// The bounds of a connection's waits.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    header: Duration,
    idle: Duration,
    write: Duration,
    /// Bytes a second.
    rate: u64,
}

/// Where a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Nothing has come yet.
    Fresh,
    /// A request was answered, and the next has not begun.
    Idle,
    /// A part of a head is here.
    Head,
    /// A request is being answered.
    Busy,
}

#[derive(Debug)]
struct State {
    at: At,
    since: Instant,
    /// Bytes of the current answer that were taken.
    written: u64,
    /// How long its writer was blocked so far.
    blocked: Duration,
    /// Since when it is.
    blocked_since: Option<Instant>,
    /// The reader, which waits without a bound while a request is answered.
    reader: Option<Waker>,
}

/// A connection, as its reader, its writer and its requests share it.
#[derive(Debug)]
pub(super) struct Wire {
    stream: TcpStream,
    bounds: Bounds,
    state: Mutex<State>,
}

impl Wire {
    pub(super) fn new(stream: TcpStream, config: &ApiConfig) -> Arc<Wire> {
        // An event must not wait for the next one to fill its packet.
        if let Err(cause) = stream.set_nodelay(true) {
            tracing::debug!(%cause, "the connection keeps its delay");
        }
        let bounds = Bounds {
            header: Duration::from_millis(config.header_timeout_ms),
            idle: Duration::from_millis(config.idle_timeout_ms),
            write: Duration::from_millis(config.write_timeout_ms),
            rate: config.min_bytes_per_second.max(1),
        };
        let since = Instant::now();
        let blocked = Duration::ZERO;
        let state = State { at: At::Fresh, since, written: 0, blocked, blocked_since: None, reader: None };
        Arc::new(Wire { stream, bounds, state: Mutex::new(state) })
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A request was answered, or given up: from here on the reader has a bound again.
    fn rest(&self) {
        let reader = self.with(|state| {
            (state.at, state.since) = (At::Idle, Instant::now());
            state.reader.take()
        });
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// Bytes came in: outside of a request they are the beginning of one.
    fn heard(&self) {
        self.with(|state| {
            if matches!(state.at, At::Fresh | At::Idle) {
                (state.at, state.since) = (At::Head, Instant::now());
            }
        });
    }

    /// When the reader has waited long enough; never while a request is answered, after which it is woken.
    fn silent_until(&self, reader: &Waker) -> Option<Instant> {
        self.with(|state| match state.at {
            At::Busy => {
                state.reader = Some(reader.clone());
                None
            }
            At::Idle => Some(state.since + self.bounds.idle),
            At::Fresh | At::Head => Some(state.since + self.bounds.header),
        })
    }

    fn wrote(&self, bytes: usize) {
        self.with(|state| {
            state.written += bytes as u64;
            if let Some(since) = state.blocked_since.take() {
                state.blocked += since.elapsed();
            }
        });
    }

    /// When a reader that takes nothing now is cut off: it may be blocked for a time in all, and longer by what it took.
    fn blocked_until(&self) -> Instant {
        self.with(|state| {
            let since = *state.blocked_since.get_or_insert_with(Instant::now);
            let earned = Duration::from_secs_f64(state.written as f64 / self.bounds.rate as f64);
            since + (self.bounds.write + earned).saturating_sub(state.blocked)
        })
    }

    /// True when the client closed the connection, or its half of it, also behind bytes that nobody has read.
    fn hung_up(&self) -> bool {
        #[cfg(target_os = "linux")]
        let wanted = PollFlags::RDHUP;
        #[cfg(not(target_os = "linux"))]
        let wanted = PollFlags::HUP;
        let mut polled = [PollFd::new(&self.stream, wanted)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(rustix::event::poll(&mut polled, Some(&now)), Ok(1..))
            && polled[0].revents().intersects(wanted | PollFlags::HUP | PollFlags::ERR)
    }

    /// Writes a last answer, as far as the socket takes it at once.
    fn last_words(&self, api: &Api, error: &ApiError) {
        api.metrics.request("unread", error.status());
        // A client that does not read its own answer has none.
        let _ = self.stream.try_write(&error.raw());
    }

    /// Refuses the connection as a whole.
    pub(super) async fn refuse(&self, api: &Api, error: &ApiError) {
        self.last_words(api, error);
        self.linger().await;
    }

    /// Ends our half, and reads what the client still sends, for a moment.
    pub(super) async fn linger(&self) {
        // Fails where the connection is gone already.
        let _ = rustix::net::shutdown(&self.stream, rustix::net::Shutdown::Write);
        let drain = async {
            let (mut bin, mut left) = ([0; 4096], LINGER_BYTES);
            while left > 0 && self.stream.readable().await.is_ok() {
                match self.stream.try_read(&mut bin) {
                    Ok(0) => return,
                    Ok(read) => left = left.saturating_sub(read),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => return,
                }
            }
        };
        let _ = tokio::time::timeout(LINGER, drain).await;
    }
}

/// The connection as the reader and writer of requests sees it.
pub(super) struct Guarded {
    wire: Arc<Wire>,
    api: Arc<Api>,
    silence: Pin<Box<Sleep>>,
    blocked: Pin<Box<Sleep>>,
}

impl Guarded {
    pub(super) fn new(wire: Arc<Wire>, api: Arc<Api>) -> Guarded {
        let never = || Box::pin(tokio::time::sleep(Duration::from_secs(3600)));
        Guarded { wire, api, silence: never(), blocked: never() }
    }

    /// Writes, or waits as long as the reader may let us wait.
    fn write(
        &mut self,
        cx: &mut Context<'_>,
        work: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.wire.stream.poll_write_ready(cx) {
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) => match work(&self.wire.stream) {
                    Ok(written) => {
                        self.wire.wrote(written);
                        return Poll::Ready(Ok(written));
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Poll::Ready(Err(error)),
                },
                Poll::Pending => {
                    self.blocked.as_mut().reset(self.wire.blocked_until());
                    ready!(self.blocked.as_mut().poll(cx));
                    tracing::debug!("a client that does not read is cut off");
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
            }
        }
    }

    /// A head that cannot be read is answered by the reader itself, with a bare status. Ours says the same in the dialect.
    fn instead_of(&self, bytes: &[u8]) -> Option<ApiError> {
        let status = bytes.strip_prefix(b"HTTP/1.1 ")?.get(..3)?;
        if !matches!(status, b"400" | b"414" | b"431") {
            return None;
        }
        let bare = bytes.ends_with(b"\r\n\r\n")
            && bytes.windows(17).any(|line| line.eq_ignore_ascii_case(b"content-length: 0"))
            && self.wire.with(|state| state.at != At::Busy);
        let api = &self.api.gateway.config.api;
        match status {
            b"400" if bare => Some(ApiError::BadHead),
            b"414" if bare => Some(ApiError::LongUri),
            b"431" if bare => Some(ApiError::LargeHead { bytes: api.max_header_bytes, headers: api.max_headers }),
            _ => None,
        }
    }
}

impl AsyncRead for Guarded {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while let Poll::Ready(readable) = this.wire.stream.poll_read_ready(cx) {
            readable?;
            match this.wire.stream.try_read(buf.initialize_unfilled()) {
                Ok(read) => {
                    if read > 0 {
                        this.wire.heard();
                    }
                    buf.advance(read);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        let Some(until) = this.wire.silent_until(cx.waker()) else { return Poll::Pending };
        this.silence.as_mut().reset(until);
        ready!(this.silence.as_mut().poll(cx));
        if this.wire.with(|state| state.at == At::Head) {
            this.wire.last_words(&this.api, &ApiError::SlowHead { ms: this.api.gateway.config.api.header_timeout_ms });
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        // The same as an end from the other side: nothing was begun.
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Guarded {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if let Some(error) = self.instead_of(bytes) {
            self.wire.last_words(&self.api, &error);
            return Poll::Ready(Ok(bytes.len()));
        }
        self.write(cx, |stream| stream.try_write(bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut filled = slices.iter().filter(|slice| !slice.is_empty());
        if let (Some(only), None) = (filled.next(), filled.next()) {
            return self.poll_write(cx, only);
        }
        self.write(cx, |stream| stream.try_write_vectored(slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = rustix::net::shutdown(&self.wire.stream, rustix::net::Shutdown::Write);
        Poll::Ready(ended.map_err(io::Error::from))
    }
}

/// The client closed the connection while it was being answered.
#[derive(Debug, thiserror::Error)]
#[error("the client hung up")]
pub(super) struct HungUp;

/// Answers the requests of one connection.
#[derive(Debug, Clone)]
pub(super) struct Serving {
    pub(super) router: Router,
    pub(super) wire: Arc<Wire>,
}

impl hyper::service::Service<Request<Incoming>> for Serving {
    type Response = Response<Body>;
    type Error = HungUp;
    type Future = BoxFuture<'static, Result<Response<Body>, HungUp>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let busy = Busy::new(Arc::clone(&self.wire));
        let answer = self.router.clone().oneshot(request);
        Box::pin(async move {
            let mut busy = busy;
            let response = tokio::select! {
                biased;
                response = answer => match response {
                    Ok(response) => response,
                    Err(never) => match never {},
                },
                () = std::future::poll_fn(|cx| busy.poll_hung_up(cx)) => return Err(HungUp),
            };
            Ok(response.map(|body| Body::new(Answer { body, busy })))
        })
    }
}

/// A request that is being answered.
struct Busy {
    wire: Arc<Wire>,
    look: Interval,
}

impl Busy {
    fn new(wire: Arc<Wire>) -> Busy {
        wire.with(|state| {
            (state.at, state.since) = (At::Busy, Instant::now());
            (state.written, state.blocked) = (0, Duration::ZERO);
        });
        let mut look = tokio::time::interval_at(Instant::now() + LOOK, LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Busy { wire, look }
    }

    fn poll_hung_up(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.look.poll_tick(cx));
            if self.wire.hung_up() {
                return Poll::Ready(());
            }
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.wire.rest();
    }
}

/// The body of an answer.
struct Answer {
    body: Body,
    busy: Busy,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            return Poll::Ready(frame);
        }
        ready!(self.busy.poll_hung_up(cx));
        Poll::Ready(Some(Err(axum::Error::new(HungUp))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        HttpBody::size_hint(&self.body)
    }
}
