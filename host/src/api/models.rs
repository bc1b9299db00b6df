//! `GET /v1/models` and `GET /v1/models/{id}`.

use super::{Api, ApiError, paths};
use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) async fn list(State(api): State<Arc<Api>>) -> Result<Json<Value>, ApiError> {
    let models = api.gateway.model.models().await?;
    Ok(Json(json!({"object": "list", "data": models})))
}

pub(super) async fn one(State(api): State<Arc<Api>>, uri: Uri) -> Result<Json<Value>, ApiError> {
    let id = uri.path().strip_prefix("/v1/models/").and_then(paths::decoded).unwrap_or_default();
    let models = api.gateway.model.models().await?;
    match models.into_iter().find(|model| model.get("id").and_then(Value::as_str) == Some(&id)) {
        Some(model) => Ok(Json(model)),
        None => Err(ApiError::NotFound { what: "model", name: id, near: None }),
    }
}
