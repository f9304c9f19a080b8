//! Requests as JSON in, answers as JSON out, to any broker: what `tests/differential` speaks through.
//!
//! Each line on standard input is a command with an `id`, each line on standard output its outcome
//! (`{"id": 1, "ok": ...}`, `{"id": 1, "error": "..."}`) or something that came from a broker
//! (`{"connection": "a", "correlation": 3, "response": {...}}`, `{"connection": "a", "closed": "..."}`). Commands:
//!
//! - `start`: an embedded broker with `nodes`, `racks` and Kafka's `settings`; `control` sends it a `command`, `stop`
//!   ends it
//! - `connect` opens a `connection` of that name to an `address`, `close` closes it
//! - `encode`: the frame of a request (`api`, `version`, `body`, `correlation`, `client_id`), as base64 and without its
//!   length. What the body leaves out has Kafka's default; what the version does not have is left out.
//! - `send`: such a frame, whose answer is to be read as that `api` and `version`; with `api` null it comes as base64
//! - `bytes`: bytes as they are, base64

use std::collections::{BTreeSet, HashMap};
use std::error::Error;
use std::io::{BufRead, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex};

use monedula_broker::control::Command;
use monedula_broker::security::SecurityProtocol;
use monedula_broker::server::{Broker, Clock};
use monedula_broker::settings::Settings;
use monedula_protocol::api::Request;
use monedula_protocol::frame::{correlation_id, decode_response, encode_request, frame_length};
use monedula_protocol::messages;
use monedula_protocol::wire::json::Json;
use serde_json::{Map, Value, json};

type Outcome<T> = Result<T, Box<dyn Error>>;
/// The form of awaited answers, by correlation id: the API and the version, or `None` for one that is not read.
type Awaited = Arc<Mutex<HashMap<i32, Option<(String, i16)>>>>;

const LENGTH_BYTES: usize = 4;
const MAX_FRAME_BYTES: usize = 256 << 20;

macro_rules! apis {
    ($($name:literal, $module:ident::$request:ident;)*) => {
        fn encode_body(api: &str, version: i16, body: &Value, correlation: i32, client_id: Option<&str>) -> Outcome<Vec<u8>> {
            match api {
                $($name => encode::<messages::$module::$request<'static>>(version, body, correlation, client_id),)*
                _ => Err(format!("{api} is not known here").into()),
            }
        }

        fn decode_frame(api: &str, version: i16, frame: &'static [u8]) -> Outcome<Value> {
            match api {
                $($name => decode::<messages::$module::$request<'static>>(version, frame),)*
                _ => Err(format!("{api} is not known here").into()),
            }
        }
    };
}

apis! {
    "Produce", produce::ProduceRequest;
    "Fetch", fetch::FetchRequest;
    "ListOffsets", list_offsets::ListOffsetsRequest;
    "Metadata", metadata::MetadataRequest;
    "OffsetCommit", offset_commit::OffsetCommitRequest;
    "OffsetFetch", offset_fetch::OffsetFetchRequest;
    "FindCoordinator", find_coordinator::FindCoordinatorRequest;
    "JoinGroup", join_group::JoinGroupRequest;
    "Heartbeat", heartbeat::HeartbeatRequest;
    "LeaveGroup", leave_group::LeaveGroupRequest;
    "SyncGroup", sync_group::SyncGroupRequest;
    "DescribeGroups", describe_groups::DescribeGroupsRequest;
    "ListGroups", list_groups::ListGroupsRequest;
    "ApiVersions", api_versions::ApiVersionsRequest;
    "CreateTopics", create_topics::CreateTopicsRequest;
    "DeleteTopics", delete_topics::DeleteTopicsRequest;
    "DeleteRecords", delete_records::DeleteRecordsRequest;
    "InitProducerId", init_producer_id::InitProducerIdRequest;
    "OffsetForLeaderEpoch", offset_for_leader_epoch::OffsetForLeaderEpochRequest;
    "AddPartitionsToTxn", add_partitions_to_txn::AddPartitionsToTxnRequest;
    "AddOffsetsToTxn", add_offsets_to_txn::AddOffsetsToTxnRequest;
    "EndTxn", end_txn::EndTxnRequest;
    "TxnOffsetCommit", txn_offset_commit::TxnOffsetCommitRequest;
    "WriteTxnMarkers", write_txn_markers::WriteTxnMarkersRequest;
    "DescribeConfigs", describe_configs::DescribeConfigsRequest;
    "DescribeLogDirs", describe_log_dirs::DescribeLogDirsRequest;
    "AlterConfigs", alter_configs::AlterConfigsRequest;
    "AlterReplicaLogDirs", alter_replica_log_dirs::AlterReplicaLogDirsRequest;
    "DescribeQuorum", describe_quorum::DescribeQuorumRequest;
    "UpdateFeatures", update_features::UpdateFeaturesRequest;
    "GetTelemetrySubscriptions", get_telemetry_subscriptions::GetTelemetrySubscriptionsRequest;
    "PushTelemetry", push_telemetry::PushTelemetryRequest;
    "ListConfigResources", list_config_resources::ListConfigResourcesRequest;
    "CreatePartitions", create_partitions::CreatePartitionsRequest;
    "DeleteGroups", delete_groups::DeleteGroupsRequest;
    "ElectLeaders", elect_leaders::ElectLeadersRequest;
    "IncrementalAlterConfigs", incremental_alter_configs::IncrementalAlterConfigsRequest;
    "AlterPartitionReassignments", alter_partition_reassignments::AlterPartitionReassignmentsRequest;
    "ListPartitionReassignments", list_partition_reassignments::ListPartitionReassignmentsRequest;
    "OffsetDelete", offset_delete::OffsetDeleteRequest;
    "DescribeAcls", describe_acls::DescribeAclsRequest;
    "CreateAcls", create_acls::CreateAclsRequest;
    "DeleteAcls", delete_acls::DeleteAclsRequest;
    "CreateDelegationToken", create_delegation_token::CreateDelegationTokenRequest;
    "RenewDelegationToken", renew_delegation_token::RenewDelegationTokenRequest;
    "ExpireDelegationToken", expire_delegation_token::ExpireDelegationTokenRequest;
    "DescribeDelegationToken", describe_delegation_token::DescribeDelegationTokenRequest;
    "DescribeClientQuotas", describe_client_quotas::DescribeClientQuotasRequest;
    "AlterClientQuotas", alter_client_quotas::AlterClientQuotasRequest;
    "DescribeUserScramCredentials", describe_user_scram_credentials::DescribeUserScramCredentialsRequest;
    "AlterUserScramCredentials", alter_user_scram_credentials::AlterUserScramCredentialsRequest;
    "DescribeCluster", describe_cluster::DescribeClusterRequest;
    "DescribeProducers", describe_producers::DescribeProducersRequest;
    "DescribeTransactions", describe_transactions::DescribeTransactionsRequest;
    "ListTransactions", list_transactions::ListTransactionsRequest;
    "SaslHandshake", sasl_handshake::SaslHandshakeRequest;
    "SaslAuthenticate", sasl_authenticate::SaslAuthenticateRequest;
    "ConsumerGroupHeartbeat", consumer_group_heartbeat::ConsumerGroupHeartbeatRequest;
    "ConsumerGroupDescribe", consumer_group_describe::ConsumerGroupDescribeRequest;
    "ShareGroupHeartbeat", share_group_heartbeat::ShareGroupHeartbeatRequest;
    "ShareGroupDescribe", share_group_describe::ShareGroupDescribeRequest;
    "ShareFetch", share_fetch::ShareFetchRequest;
    "ShareAcknowledge", share_acknowledge::ShareAcknowledgeRequest;
    "DescribeShareGroupOffsets", describe_share_group_offsets::DescribeShareGroupOffsetsRequest;
    "AlterShareGroupOffsets", alter_share_group_offsets::AlterShareGroupOffsetsRequest;
    "DeleteShareGroupOffsets", delete_share_group_offsets::DeleteShareGroupOffsetsRequest;
    "DescribeTopicPartitions", describe_topic_partitions::DescribeTopicPartitionsRequest;
}

fn main() {
    let mut wire = Wire::default();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let command: Value = match serde_json::from_str(&line) {
            Ok(command) => command,
            Err(error) => {
                tell(&json!({"id": null, "error": error.to_string()}));
                continue;
            }
        };
        let id = command["id"].clone();
        match wire.carry_out(&command) {
            Ok(outcome) => tell(&json!({"id": id, "ok": outcome})),
            Err(error) => tell(&json!({"id": id, "error": error.to_string()})),
        }
    }
}

/// Written whole lines at a time, by the threads of all connections.
fn tell(line: &Value) {
    let mut output = std::io::stdout().lock();
    // Nobody who reads is nobody to tell: standard input is at its end as well.
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}

#[derive(Default)]
struct Wire {
    brokers: Vec<Option<Broker>>,
    connections: HashMap<String, (TcpStream, Awaited)>,
}

impl Wire {
    fn carry_out(&mut self, command: &Value) -> Outcome<Value> {
        match text(command, "op")? {
            "start" => self.start(command),
            "control" => self.control(command),
            "stop" => {
                self.brokers[index(command)?] = None;
                Ok(Value::Null)
            }
            "connect" => self.connect(command),
            "close" => self.close(text(command, "connection")?),
            "encode" => encoded(command),
            "send" => self.send(command),
            "bytes" => self.bytes(text(command, "connection")?, &base64(command, "bytes")?),
            op => Err(format!("{op} is no command").into()),
        }
    }

    fn start(&mut self, command: &Value) -> Outcome<Value> {
        let nodes = u16::try_from(number(command, "nodes")?)?;
        let racks = (1..=nodes).map(|node| format!("rack-{node}")).collect();
        let mut settings = Settings { nodes, racks, ..Settings::default() };
        for (name, value) in command["settings"].as_object().into_iter().flatten() {
            settings.set(name, value.as_str().ok_or("settings are text")?)?;
        }
        // With users there is a listener of SASL_PLAINTEXT, otherwise one without any security.
        for (name, password) in command["users"].as_object().into_iter().flatten() {
            settings.security.protocol = SecurityProtocol::SaslPlaintext;
            settings.security.users.insert(name.clone(), password.as_str().ok_or("passwords are text")?.into());
        }
        let broker = Broker::start(settings, Clock::system())?;
        let addresses: Map<String, Value> =
            broker.addresses().iter().map(|(node, address)| (node.to_string(), json!(address.to_string()))).collect();
        self.brokers.push(Some(broker));
        Ok(json!({"broker": self.brokers.len() - 1, "addresses": addresses}))
    }

    fn control(&mut self, command: &Value) -> Outcome<Value> {
        let broker = self.brokers.get(index(command)?).and_then(Option::as_ref).ok_or("no such broker")?;
        let command: Command = serde_json::from_value(command["command"].clone())?;
        Ok(broker.control(command)?)
    }

    fn connect(&mut self, command: &Value) -> Outcome<Value> {
        let name = text(command, "connection")?.to_owned();
        let stream = TcpStream::connect(text(command, "address")?)?;
        stream.set_nodelay(true)?;
        let awaited = Awaited::default();
        let (reader, theirs) = (stream.try_clone()?, Arc::clone(&awaited));
        self.connections.insert(name.clone(), (stream, awaited));
        std::thread::spawn(move || {
            let end = listen(&name, reader, &theirs).err().map_or_else(String::new, |error| error.to_string());
            tell(&json!({"connection": name, "closed": end}));
        });
        Ok(Value::Null)
    }

    fn close(&mut self, name: &str) -> Outcome<Value> {
        if let Some((stream, _)) = self.connections.remove(name) {
            // The other side may have closed it before.
            let _ = stream.shutdown(Shutdown::Both);
        }
        Ok(Value::Null)
    }

    fn send(&mut self, command: &Value) -> Outcome<Value> {
        let name = text(command, "connection")?;
        let (_, awaited) = self.connections.get(name).ok_or("no such connection")?;
        let how = match &command["api"] {
            Value::Null => None,
            api => Some((api.as_str().ok_or("api is text")?.to_owned(), i16::try_from(number(command, "version")?)?)),
        };
        let correlation = i32::try_from(number(command, "correlation")?)?;
        awaited.lock().map_err(|_| "a reader panicked")?.insert(correlation, how);
        let frame = base64(command, "frame")?;
        let mut bytes = i32::try_from(frame.len())?.to_be_bytes().to_vec();
        bytes.extend_from_slice(&frame);
        self.bytes(name, &bytes)
    }

    fn bytes(&mut self, name: &str, bytes: &[u8]) -> Outcome<Value> {
        let (stream, _) = self.connections.get_mut(name).ok_or("no such connection")?;
        stream.write_all(bytes)?;
        Ok(Value::Null)
    }
}

/// Tells every answer until the connection ends.
fn listen(name: &str, mut stream: TcpStream, awaited: &Awaited) -> Outcome<()> {
    loop {
        let mut prefix = [0; LENGTH_BYTES];
        if stream.read(&mut prefix[..1])? == 0 {
            return Ok(());
        }
        stream.read_exact(&mut prefix[1..])?;
        let mut frame = vec![0; frame_length(prefix, MAX_FRAME_BYTES)?];
        stream.read_exact(&mut frame)?;
        // Decoded messages borrow from their frame; a test's answers are few.
        let frame: &'static [u8] = frame.leak();
        let correlation = correlation_id(frame)?;
        let how = awaited.lock().map_err(|_| "a writer panicked")?.remove(&correlation);
        let told = match how {
            Some(Some((api, version))) => match decode_frame(&api, version, frame) {
                Ok(response) => json!({"response": response}),
                Err(error) => json!({"undecoded": error.to_string(), "frame": frame.to_json(0)}),
            },
            Some(None) => json!({"frame": frame.to_json(0)}),
            None => json!({"undecoded": "no such request", "frame": frame.to_json(0)}),
        };
        let mut told = told;
        told["connection"] = json!(name);
        told["correlation"] = json!(correlation);
        tell(&told);
    }
}

fn encoded(command: &Value) -> Outcome<Value> {
    let version = i16::try_from(number(command, "version")?)?;
    let correlation = i32::try_from(number(command, "correlation")?)?;
    let client_id = command["client_id"].as_str();
    let frame = encode_body(text(command, "api")?, version, &command["body"], correlation, client_id)?;
    Ok((&frame[LENGTH_BYTES..]).to_json(0))
}

fn encode<R>(version: i16, given: &Value, correlation: i32, client_id: Option<&str>) -> Outcome<Vec<u8>>
where
    R: Request<'static> + Json<'static>,
{
    let every_version: Vec<Value> = R::VERSIONS.map(|version| R::specimen().to_json(version)).collect();
    let template = R::specimen().to_json(version);
    let mut known = BTreeSet::new();
    every_version.iter().for_each(|specimen| names(specimen, &mut known));
    let mut body = R::default().to_json(version);
    fill(&mut body, given, &template, &known);
    let body: &'static Value = Box::leak(Box::new(body));
    let request = R::from_json(body, version)?;
    let mut used = BTreeSet::new();
    names(&request.to_json(version), &mut used);
    let mut meant = BTreeSet::new();
    names(given, &mut meant);
    if let Some(stray) = meant.difference(&known).find(|name| !used.contains(*name)) {
        return Err(format!("{} has no {stray}", R::API_KEY).into());
    }
    Ok(encode_request(&request, version, correlation, client_id)?)
}

fn decode<R>(version: i16, frame: &'static [u8]) -> Outcome<Value>
where
    R: Request<'static>,
    R::Response<'static>: Json<'static>,
{
    Ok(decode_response::<R>(frame, version)?.to_json(version))
}

/// The names of all fields, at whatever depth.
fn names(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                found.insert(name.clone());
                names(value, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| names(item, found)),
        _ => {}
    }
}

/// Puts what is given into `target`, which has the defaults. `template` has an item in every array that shows the
/// defaults of such items. What another version has, but not this one, is left out; tagged fields stand in no template.
fn fill(target: &mut Value, given: &Value, template: &Value, known: &BTreeSet<String>) {
    match (given, template) {
        (Value::Object(given), Value::Object(template)) => {
            if !target.is_object() {
                *target = default_of(&Value::Object(template.clone()));
            }
            for (name, value) in given {
                match template.get(name) {
                    Some(inner) => fill(&mut target[name], value, inner, known),
                    None if known.contains(name) => {}
                    None => target[name] = value.clone(),
                }
            }
        }
        (Value::Array(items), Value::Array(template)) if !template.is_empty() => {
            let item = |given: &Value| {
                let mut item = default_of(&template[0]);
                fill(&mut item, given, &template[0], known);
                item
            };
            *target = items.iter().map(item).collect();
        }
        _ => *target = given.clone(),
    }
}

/// A template without the items of its arrays.
fn default_of(template: &Value) -> Value {
    match template {
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), default_of(value))).collect(),
        Value::Array(_) => json!([]),
        other => other.clone(),
    }
}

fn text<'a>(command: &'a Value, key: &str) -> Outcome<&'a str> {
    command[key].as_str().ok_or_else(|| format!("{key} is to be text").into())
}

fn number(command: &Value, key: &str) -> Outcome<i64> {
    command[key].as_i64().ok_or_else(|| format!("{key} is to be a number").into())
}

fn index(command: &Value) -> Outcome<usize> {
    Ok(usize::try_from(number(command, "broker")?)?)
}

fn base64(command: &Value, key: &str) -> Outcome<Vec<u8>> {
    let value: &'static Value = Box::leak(Box::new(command[key].clone()));
    let bytes: &[u8] = Json::from_json(value, 0)?;
    Ok(bytes.to_vec())
}
