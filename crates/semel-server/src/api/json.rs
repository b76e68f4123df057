//! An answer in JSON.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use serde::Serialize;

use super::code::Code;
use super::problem::Problem;

/// Room for the answer to one publish or settle, which most answers are.
const ROOM: usize = 256;

/// An answer in JSON, written to a plain vector. Axum's own writes through `BytesMut`, which looks for room at every comma.
#[derive(Debug)]
pub(super) struct Json<T>(pub(super) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        let mut text = Vec::with_capacity(ROOM);
        if let Err(error) = serde_json::to_writer(&mut text, &self.0) {
            return Problem::new(Code::Internal, format!("the answer could not be written: {error}"))
                .into_response();
        }
        let kind = HeaderValue::from_static("application/json");
        ([(header::CONTENT_TYPE, kind)], text).into_response()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use http::StatusCode;

    use super::*;

    #[test]
    fn what_cannot_be_written_is_a_problem_and_not_half_an_answer() {
        let answer = Json(BTreeMap::from([("id", 1)])).into_response();
        assert_eq!(
            (answer.status(), &answer.headers()["content-type"]),
            (StatusCode::OK, &"application/json".parse().unwrap())
        );
        let keyed_by_a_list = BTreeMap::from([(vec![1], 1)]);
        assert_eq!(Json(keyed_by_a_list).into_response().status(), StatusCode::INTERNAL_SERVER_ERROR);
    }
}
