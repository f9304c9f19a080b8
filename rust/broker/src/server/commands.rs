//! Carrying out commands. Most are passed to the core; those that need sockets, the clock or a wait are handled here.

use std::time::Duration;

use serde_json::{Value, json};

use super::shared::{Entrance, Shared};
use super::{listener, tls, token_endpoint};
use crate::BrokerError;
use crate::control::Command;
use crate::core::Core;

pub(super) async fn carry_out(shared: &Shared, command: Command) -> Result<Value, BrokerError> {
    match command {
        Command::Advance { ms } => advance(shared, ms),
        Command::Wait { fault, hits, timeout_ms } => wait(shared, fault, hits, timeout_ms).await,
        Command::StopNode { node } => {
            let answer = shared.with(|core, now_ms| core.control(now_ms, command))?;
            shared.stop_listening(node).await;
            Ok(answer)
        }
        Command::StartNode { node } => {
            for (protocol, port) in shared.with(|core, _| core.stopped_ports(node))? {
                listener::listen(shared, node, protocol, port).await?;
            }
            shared.with(|core, now_ms| core.control(now_ms, command))
        }
        Command::ShowCertificate { flaw } => {
            let flaw = flaw.parse()?;
            let make = |core: &mut Core, _| tls::acceptor(core, flaw, core.settings.security.client_auth);
            shared.set_encrypted(Entrance::Tls(shared.with(make)?));
            Ok(Value::Null)
        }
        Command::StaySilent { silent } => {
            shared.set_silent(silent);
            Ok(Value::Null)
        }
        Command::TokenEndpoint { lifetime_ms } => {
            if let Some(lifetime_ms) = lifetime_ms {
                shared.set_token_lifetime_ms(lifetime_ms);
            }
            Ok(json!({ "url": token_endpoint::open(shared).await? }))
        }
        command => shared.with(|core, now_ms| core.control(now_ms, command)),
    }
}

fn advance(shared: &Shared, ms: i64) -> Result<Value, BrokerError> {
    if ms < 0 {
        return Err(BrokerError::Command(format!("advance by {ms} ms: time does not go back")));
    }
    if !shared.advance(ms) {
        let problem = "the broker's clock is the machine's; start it with clock=\"manual\" to move the time";
        return Err(BrokerError::Command(problem.to_owned()));
    }
    Ok(json!({ "now_ms": shared.clock().now_ms() }))
}

/// Waits until a fault has the wanted hits, or the timeout has passed. The timeout is in the machine's time, also with
/// a manual clock.
async fn wait(shared: &Shared, fault: u64, wanted: u64, timeout_ms: u64) -> Result<Value, BrokerError> {
    let mut changes = shared.watch_hits();
    let reached = async {
        loop {
            let hits = shared.with(|core, _| core.faults.hits(fault))?;
            if hits >= wanted {
                return Ok(hits);
            }
            if changes.changed().await.is_err() {
                return Err(BrokerError::Stopped);
            }
        }
    };
    match tokio::time::timeout(Duration::from_millis(timeout_ms), reached).await {
        Ok(hits) => Ok(json!({ "hits": hits?, "reached": true })),
        Err(_) => {
            let hits = shared.with(|core, _| core.faults.hits(fault))?;
            Ok(json!({ "hits": hits, "reached": false }))
        }
    }
}
