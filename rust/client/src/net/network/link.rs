//! An open connection with the versions that its broker offers, and a request that was sent over it.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Instant;

use monedula_protocol::api::{ApiKey, negotiate};
use tokio::sync::oneshot;

use super::handshake::Offered;
use crate::error::{ClientError, RequestError};
use crate::net::connection::{Connection, Frame, Reply};

/// An open connection with the versions that its broker offers.
#[derive(Clone)]
pub(crate) struct Link {
    pub(super) connection: Arc<Connection>,
    pub(super) offered: Arc<Offered>,
}

pub(crate) struct Awaited {
    pub(super) link: Link,
    pub(super) version: i16,
    pub(super) reply: oneshot::Receiver<Reply>,
}

impl Awaited {
    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.link.connection
    }

    pub(crate) async fn answer(self) -> Result<(Frame, i16), RequestError> {
        Ok((self.link.connection.reply(self.reply).await?, self.version))
    }
}

impl Link {
    /// True if the broker wants no request over it for now (KIP-219).
    pub(super) fn is_throttled(&self) -> bool {
        self.connection.throttled_until().is_some_and(|until| until > Instant::now())
    }

    pub(super) fn version(&self, api: ApiKey, ours: RangeInclusive<i16>) -> Result<i16, RequestError> {
        let theirs = self.offered.get(&api.code()).copied();
        let common = theirs.and_then(|(min, max)| negotiate(ours.clone(), min, max));
        common.ok_or_else(|| {
            RequestError::Fatal(Box::new(ClientError::UnsupportedVersion {
                broker: self.connection.broker().to_owned(),
                api: api.name(),
                ours_min: *ours.start(),
                ours_max: *ours.end(),
                theirs: theirs.map_or_else(|| "none".into(), |(min, max)| format!("{min} to {max}")),
            }))
        })
    }
}
