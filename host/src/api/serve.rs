//! The listener: connections in, graceful end.

use super::{Api, ApiError, router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// Longest wait for the head of a request, on a fresh connection and on one that is kept.
const HEAD: Duration = Duration::from_secs(30);
/// Pause after the system refused a connection, for instance because too many files are open.
const REFUSED: Duration = Duration::from_millis(50);

/// Serves until `shutdown` is done. Then nothing new is taken, and what runs has `[gateway] drain_ms` to end; what is left is
/// dropped, which cancels its turn. True when everything ended by itself.
///
/// # Errors
/// [`ApiError::Open`] when the listener is not on loopback and no token is configured.
pub async fn serve(api: Arc<Api>, listener: TcpListener, shutdown: impl Future<Output = ()>) -> Result<bool, ApiError> {
    let address = listener.local_addr().map_err(|cause| ApiError::Internal(format!("the listener: {cause}")))?;
    if !address.ip().is_loopback() && !api.guard.has_token() {
        return Err(ApiError::Open { address });
    }
    let service = TowerToHyperService::new(router(Arc::clone(&api)));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD);
    let connections = GracefulShutdown::new();
    let dropped = CancellationToken::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut shutdown => break,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(cause) => {
                tracing::warn!(%cause, "a connection was not taken");
                tokio::time::sleep(REFUSED).await;
                continue;
            }
        };
        let connection = http.serve_connection(TokioIo::new(ready(stream)), service.clone());
        let connection = connections.watch(connection);
        let dropped = dropped.clone();
        tokio::spawn(async move {
            tokio::select! {
                ended = connection => if let Err(cause) = ended {
                    tracing::debug!(%cause, "a connection broke off");
                },
                () = dropped.cancelled() => {}
            }
        });
    }
    drop(listener);
    api.stopping.store(true, Ordering::Relaxed);
    let patience = Duration::from_millis(api.gateway.config.gateway.drain_ms);
    let drained = tokio::time::timeout(patience, connections.shutdown()).await.is_ok();
    dropped.cancel();
    Ok(drained)
}

/// An event must not wait for the next one to fill its packet.
fn ready(stream: TcpStream) -> TcpStream {
    if let Err(cause) = stream.set_nodelay(true) {
        tracing::debug!(%cause, "the connection keeps its delay");
    }
    stream
}
