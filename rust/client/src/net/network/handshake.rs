//! The first request on a connection: the versions that the broker offers, and the features of the cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use monedula_protocol::api::{ApiKey, Request, negotiate};
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::frame;
use monedula_protocol::messages::api_versions::{ApiVersionsRequest, ApiVersionsResponse};

use super::{Network, NodeId};
use crate::error::RequestError;
use crate::lock::lock;
use crate::net::connection::Connection;

/// Versions that a broker offers, by API key.
pub(crate) type Offered = BTreeMap<i16, (i16, i16)>;

/// Features that the cluster has agreed on; those that the client uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Features {
    /// Grows with each change; -1 before any is known.
    pub(super) epoch: i64,
    /// `transaction.version`; 0 where there is none.
    pub(super) transaction_version: i16,
}

/// The versions that a broker offers, and the features of the cluster.
pub(super) type Handshake = (Offered, Features);

impl Network {
    /// Asks the broker which versions it offers (KIP-35). One that does not know our version of ApiVersions answers in
    /// version 0 with the range that it knows (KIP-511), and is asked again. A broker of metadata is sent the node and
    /// cluster that it is taken for (KIP-1242): another broker that has its address by now refuses that.
    pub(super) async fn handshake(&self, node: NodeId, connection: &Connection) -> Result<Handshake, RequestError> {
        let wire = |error| RequestError::Wire { broker: connection.broker().to_owned(), error };
        let cluster_id = lock(&self.cluster_id).clone();
        // Both or neither.
        let meant = match (node, &cluster_id) {
            (NodeId::Broker(id), Some(cluster_id)) => Some((cluster_id.as_str(), id)),
            _ => None,
        };
        let request = ApiVersionsRequest {
            client_software_name: "monedula",
            client_software_version: env!("CARGO_PKG_VERSION"),
            cluster_id: meant.map(|(cluster_id, _)| cluster_id),
            node_id: meant.map_or(-1, |(_, id)| id),
            ..Default::default()
        };
        let mut version = *ApiVersionsRequest::VERSIONS.end();
        for _ in 0..2 {
            let answer = connection.call(&request, version, Duration::ZERO).await?;
            let answer = answer.as_slice();
            let code = answer.get(4..6).map_or(0, |bytes| i16::from_be_bytes([bytes[0], bytes[1]]));
            let refused = ErrorCode::from_code(code) == ErrorCode::UnsupportedVersion;
            let response: ApiVersionsResponse<'_> =
                frame::decode_response::<ApiVersionsRequest<'_>>(answer, if refused { 0 } else { version })
                    .map_err(wire)?;
            let error = ErrorCode::from_code(response.error_code);
            if error == ErrorCode::None {
                // Before that version the broker waits itself.
                if version >= 2 {
                    connection.throttle(response.throttle_time_ms);
                }
                let offered = response.api_keys.iter().map(|api| (api.api_key, (api.min_version, api.max_version)));
                return Ok((offered.collect(), features(&response)));
            }
            if error == ErrorCode::RebootstrapRequired {
                let broker = connection.broker().to_owned();
                self.rebootstrap(&format!("{broker} is not broker {} of the cluster", request.node_id));
                let reason = format!("the handshake failed: {}", error.name());
                return Err(RequestError::Disconnected { broker, reason });
            }
            let range = response.api_keys.iter().find(|api| api.api_key == ApiKey::ApiVersions.code());
            let common =
                range.and_then(|api| negotiate(ApiVersionsRequest::VERSIONS, api.min_version, api.max_version));
            version = common.filter(|_| refused).unwrap_or(0);
        }
        let reason = "the broker refused every version of ApiVersions".to_owned();
        Err(RequestError::Disconnected { broker: connection.broker().to_owned(), reason })
    }

    pub(super) fn learn_features(&self, newer: Features) {
        let mut known = lock(&self.features);
        // A broker that lags behind has older features.
        if newer.epoch > known.epoch {
            *known = newer;
        }
    }
}

fn features(response: &ApiVersionsResponse<'_>) -> Features {
    let transactions = response.finalized_features.iter().find(|feature| feature.name == "transaction.version");
    Features {
        epoch: response.finalized_features_epoch,
        transaction_version: transactions.map_or(0, |feature| feature.max_version_level),
    }
}
