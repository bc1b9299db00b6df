//! The listener: connections in, as many as may be, graceful end.

use super::connection::{Guarded, Serving, Wire};
use super::{Api, ApiError, router};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Pause after the system refused a connection, for instance because too many files are open.
const REFUSED: Duration = Duration::from_millis(50);
/// Connections beyond the bound that are told so at once; more are closed without a word.
const TOLD: usize = 32;

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
    let config = api.gateway.config.api.clone();
    let router = router(Arc::clone(&api));
    let mut http = http1::Builder::new();
    // The connection itself looks after its times; a head, and what is buffered, is bounded here.
    http.header_read_timeout(None).max_headers(config.max_headers).max_buf_size(config.max_header_bytes.max(8192));
    let places = Arc::new(Semaphore::new(config.max_connections.min(Semaphore::MAX_PERMITS)));
    let told = Arc::new(Semaphore::new(TOLD));
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
        let wire = Wire::new(stream, &config);
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            if let Ok(turn) = Arc::clone(&told).try_acquire_owned() {
                let (api, most) = (Arc::clone(&api), config.max_connections);
                tokio::spawn(async move {
                    wire.refuse(&api, &ApiError::Busy { what: "connections", most, key: "[api] max_connections" })
                        .await;
                    drop(turn);
                });
            }
            continue;
        };
        let io = TokioIo::new(Guarded::new(Arc::clone(&wire), Arc::clone(&api)));
        let connection = http.serve_connection(io, Serving { router: router.clone(), wire: Arc::clone(&wire) });
        let connection = connections.watch(connection);
        let dropped = dropped.clone();
        tokio::spawn(async move {
            tokio::select! {
                ended = connection => {
                    if let Err(cause) = ended {
                        tracing::debug!(%cause, "a connection broke off");
                    }
                    wire.linger().await;
                }
                () = dropped.cancelled() => {}
            }
            drop(place);
        });
    }
    drop(listener);
    api.stopping.store(true, Ordering::Relaxed);
    let patience = Duration::from_millis(api.gateway.config.gateway.drain_ms);
    let drained = tokio::time::timeout(patience, connections.shutdown()).await.is_ok();
    dropped.cancel();
    Ok(drained)
}
