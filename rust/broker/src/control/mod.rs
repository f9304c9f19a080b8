//! The commands of tests to the broker. They are the same from Rust, from Python and over the control port.

mod cluster;
mod faults;
mod groups;
mod logs;
mod records;
mod security;
mod topics;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::BrokerError;
use crate::cluster::NodeId;
use crate::core::Core;
use crate::faults::Fault;
use crate::security::{Acl, Flaw, Password};

pub use records::{Data, Record};

use logs::refused;
use security::describe_issued;
use topics::no_topic;

/// A command. Its JSON is `{"command": "move_leader", "topic": "orders", "partition": 0, "node": 2}`. Commands without
/// arguments are struct variants, too, because serde refuses unknown fields only for these.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Creates a topic. Answers its name, its id and its partition count.
    CreateTopic {
        /// The topic's name.
        topic: String,
        /// The partition count; default: the broker's `num.partitions`.
        partitions: Option<i32>,
        /// The replication factor; default: the broker's `default.replication.factor`.
        replicas: Option<i16>,
        /// The topic's configs, by Kafka's names.
        #[serde(default)]
        config: BTreeMap<String, String>,
    },
    /// Deletes a topic.
    DeleteTopic {
        /// The topic's name.
        topic: String,
    },
    /// Adds partitions to a topic.
    AddPartitions {
        /// The topic's name.
        topic: String,
        /// The new partition count.
        partitions: i32,
    },
    /// Appends records to a partition, as a producer would. Answers the first offset and the one after the last.
    Append {
        /// The topic.
        topic: String,
        /// The partition.
        #[serde(default)]
        partition: i32,
        /// The records.
        records: Vec<Record>,
        /// The codec: `none`, `gzip`, `snappy`, `lz4` or `zstd`; default: none.
        compression: Option<String>,
    },
    /// Makes a node the leader of a partition, in a new leader epoch. Moving the leader of a partition of
    /// `__consumer_offsets` or `__transaction_state` moves the coordinator. Answers the leader epoch.
    MoveLeader {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The new leader.
        node: NodeId,
    },
    /// Makes a node the coordinator of a group or a transactional id, and of all others in the same partition of
    /// `__consumer_offsets` or `__transaction_state`. Answers that topic and partition.
    MoveCoordinator {
        /// The group.
        group: Option<String>,
        /// The transactional id.
        transactional_id: Option<String>,
        /// The new coordinator.
        node: NodeId,
    },
    /// Stops a node: its port and its connections are closed, and other nodes become leaders of its partitions.
    StopNode {
        /// The node.
        node: NodeId,
    },
    /// Starts a stopped node again, on its old port.
    StartNode {
        /// The node.
        node: NodeId,
    },
    /// Puts a node into a rack, or removes it from its rack.
    SetRack {
        /// The node.
        node: NodeId,
        /// The rack; `None` for none.
        rack: Option<String>,
    },
    /// Sets the in-sync replicas of a partition.
    SetIsr {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The replicas.
        isr: Vec<NodeId>,
    },
    /// Keeps replicas that are not in sync from catching up: reassignments that add nodes stay in progress, and nodes
    /// that start stay out of sync. Or no longer: all living replicas are in sync then.
    PauseReplication {
        /// True to pause it.
        paused: bool,
    },
    /// Compacts a log at once: keeps only the latest record of each key. Tombstones stay for the topic's
    /// `delete.retention.ms`.
    Compact {
        /// The topic.
        topic: String,
        /// The partition; default: all.
        partition: Option<i32>,
    },
    /// Applies the retention of all topics at once, instead of at the next check.
    RunRetention {},
    /// Truncates a log to an offset, and begins a new leader epoch, as an unclean leader election does. Answers the
    /// leader epoch.
    Truncate {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The offset of the next record.
        offset: i64,
    },
    /// Deletes the records before an offset, whatever the topic's `cleanup.policy`. Answers the log start offset.
    DeleteRecords {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The new log start offset; -1 for the high watermark.
        before: i64,
    },
    /// Advances a manual clock. Answers its time.
    Advance {
        /// The step in milliseconds.
        ms: i64,
    },
    /// Sets a fault. Answers its id.
    Fault {
        /// The fault.
        fault: Fault,
    },
    /// Answers the hits of a fault.
    FaultHits {
        /// The fault's id.
        fault: u64,
    },
    /// Waits until a fault has a number of hits. Answers its hits, and whether it reached that number in time.
    Wait {
        /// The fault's id.
        fault: u64,
        /// The number of hits.
        hits: u64,
        /// The longest wait, in milliseconds of the machine's time.
        timeout_ms: u64,
    },
    /// Releases the requests and answers that a fault holds. The fault stays set.
    ReleaseFault {
        /// The fault's id.
        fault: u64,
    },
    /// Removes a fault, and releases the requests and answers that it holds. Answers its hits.
    RemoveFault {
        /// The fault's id.
        fault: u64,
    },
    /// Removes all faults. Answers how many.
    RemoveFaults {},
    /// Answers all faults that are set.
    Faults {
        /// True to answer those too that were removed last.
        #[serde(default)]
        removed: bool,
    },
    /// Creates ACLs. Those that exist already stay as they are.
    CreateAcls {
        /// The ACLs.
        acls: Vec<Acl>,
    },
    /// Deletes ACLs. Those that do not exist are ignored.
    DeleteAcls {
        /// The ACLs.
        acls: Vec<Acl>,
    },
    /// Answers all ACLs.
    Acls {},
    /// Sets a user's password, for PLAIN and SCRAM. A user who does not exist is created.
    SetPassword {
        /// The user.
        user: String,
        /// The password.
        password: Password,
    },
    /// Removes a user. Connections of that user stay open until they have to log in again.
    RemoveUser {
        /// The user.
        user: String,
    },
    /// Answers the names of all users.
    Users {},
    /// Ends the sessions of clients that have logged in: their connections are closed at the next request, unless they
    /// log in again. Answers how many.
    ExpireSessions {
        /// The principal, such as `User:anna`; default: all.
        principal: Option<String>,
    },
    /// Mints a token for OAUTHBEARER. Answers it, and when it expires in milliseconds since the Unix epoch.
    MintToken {
        /// The subject, which becomes the principal.
        user: String,
        /// The time for which it is valid.
        #[serde(default = "an_hour_ms")]
        lifetime_ms: i64,
        /// True if it has no signature.
        #[serde(default)]
        unsecured: bool,
        /// Further claims, which replace those that it has by itself.
        #[serde(default)]
        claims: Map<String, Value>,
    },
    /// Checks a token as a login with OAUTHBEARER does. Answers its subject, or `null` and what is wrong with it.
    CheckToken {
        /// The token.
        token: Password,
    },
    /// Answers the certificate of the broker's CA, as PEM.
    Ca {},
    /// Issues a certificate for a server on the host of the nodes, such as one beside them. Answers it and its key, as
    /// PEM.
    ServerCertificate {},
    /// Issues a certificate for a client, whose principal becomes `User:CN=name`. Answers it and its key, as PEM.
    ClientCertificate {
        /// The common name.
        name: String,
    },
    /// Has the nodes show a new certificate to clients that connect from now on.
    ShowCertificate {
        /// The flaw: `none`, `expired`, `not_yet_valid`, `wrong_host`, `unknown_ca`, `self_signed` or `wrong_usage`.
        #[serde(default = "no_flaw")]
        flaw: String,
    },
    /// Has the nodes take connections without ever reading from them or writing to them, or no longer.
    StaySilent {
        /// True if they do.
        silent: bool,
    },
    /// Answers the addresses of all nodes, by the security protocols of their listeners.
    Listeners {},
    /// Answers the URL of a token endpoint (OAuth 2.0, client credentials) on loopback, which is opened by the first
    /// such command: clients are the broker's users with their passwords.
    TokenEndpoint {
        /// The lifetime of its tokens from now on, in milliseconds; default: as before, at first an hour.
        #[serde(default)]
        lifetime_ms: Option<i64>,
    },
    /// Answers all connections.
    Connections {},
    /// Answers the last requests with what became of them, the oldest first.
    Requests {},
    /// Answers what clients pushed about themselves (KIP-714), the oldest first.
    ClientMetrics {},
    /// Ends all locks of a share group at once: the records that members have are released, as if their lock durations
    /// were over. Answers the number of records.
    ExpireLocks {
        /// The group.
        group: String,
    },
    /// Answers all groups.
    Groups {},
    /// Answers one group with its members, their assignments, and its offsets.
    Group {
        /// The group.
        group: String,
    },
}

fn an_hour_ms() -> i64 {
    3_600_000
}

fn no_flaw() -> String {
    "none".to_owned()
}

impl Core {
    /// Carries a command out. Returns its answer.
    ///
    /// # Errors
    /// [`BrokerError::Command`] if the command cannot be carried out, with the reason.
    pub fn control(&mut self, now_ms: i64, command: Command) -> Result<Value, BrokerError> {
        self.tick(now_ms);
        let answer = self.carry_out(command);
        self.wake_fetches();
        self.save()?;
        answer
    }

    fn carry_out(&mut self, command: Command) -> Result<Value, BrokerError> {
        match command {
            Command::CreateTopic { topic, partitions, replicas, config } => {
                self.create_topic_on_command(&topic, partitions, replicas, config)
            }
            Command::DeleteTopic { topic } => {
                self.delete_topic(&topic).map(|_| Value::Null).ok_or_else(|| no_topic(&topic))
            }
            Command::AddPartitions { topic, partitions } => self.add_partitions_on_command(&topic, partitions),
            Command::Append { topic, partition, records, compression } => {
                self.append_on_command(&topic, partition, &records, compression.as_deref())
            }
            Command::MoveLeader { topic, partition, node } => self.move_leader(&topic, partition, node),
            Command::MoveCoordinator { group, transactional_id, node } => {
                self.move_coordinator(group.as_deref(), transactional_id.as_deref(), node)
            }
            Command::PauseReplication { paused } => {
                self.pause_replication(paused);
                Ok(Value::Null)
            }
            Command::Compact { topic, partition } => self.compact_on_command(&topic, partition),
            Command::RunRetention {} => {
                self.run_retention();
                Ok(Value::Null)
            }
            Command::Truncate { topic, partition, offset } => self.truncate_on_command(&topic, partition, offset),
            Command::DeleteRecords { topic, partition, before } => {
                let start_offset =
                    self.delete_records(&topic, partition, before).map_err(refused(&topic, partition))?;
                Ok(json!({ "log_start_offset": start_offset }))
            }
            Command::StopNode { node } => self.stop_node(node),
            Command::StartNode { node } => self.start_node(node),
            Command::SetRack { node, rack } => self.set_rack(node, rack),
            Command::SetIsr { topic, partition, isr } => self.set_isr_on_command(&topic, partition, &isr),
            Command::Advance { .. }
            | Command::Wait { .. }
            | Command::ShowCertificate { .. }
            | Command::TokenEndpoint { .. }
            | Command::StaySilent { .. } => {
                // The server carries these out: they need its clock, a task that can wait, or its sockets.
                Err(BrokerError::Command("the core alone has neither a clock nor sockets".to_owned()))
            }
            Command::Fault { fault } => self.set_fault_on_command(fault),
            Command::FaultHits { fault } => self.describe_fault_hits(fault),
            Command::ReleaseFault { fault } => self.release_fault(fault).map(|()| Value::Null),
            Command::RemoveFault { fault } => self.remove_fault_on_command(fault),
            Command::RemoveFaults {} => Ok(self.remove_faults()),
            Command::Faults { removed } => Ok(self.describe_faults(removed)),
            Command::CreateAcls { acls } => self.create_acls_on_command(acls),
            Command::DeleteAcls { acls } => self.delete_acls_on_command(&acls),
            Command::Acls {} => self.describe_acls(),
            Command::SetPassword { user, password: Password(password) } => {
                self.security.users_mut().set_password(&user, password);
                Ok(Value::Null)
            }
            Command::RemoveUser { user } => self.remove_user(&user),
            Command::Users {} => Ok(self.security.users().names().collect()),
            Command::ExpireSessions { principal } => self.expire_sessions(principal.as_deref()),
            Command::MintToken { user, lifetime_ms, unsecured, claims } => {
                Ok(self.mint_token(&user, lifetime_ms, unsecured, claims))
            }
            Command::CheckToken { token: Password(token) } => Ok(self.check_token(&token)),
            Command::Ca {} => Ok(json!({ "certificate": self.security.certificates()?.ca_pem() })),
            Command::ServerCertificate {} => Ok(describe_issued(&self.security.certificates()?.server(Flaw::None)?)),
            Command::ClientCertificate { name } => Ok(describe_issued(&self.security.certificates()?.client(&name)?)),
            Command::Listeners {} => Ok(self.describe_listeners()),
            Command::Connections {} => Ok(self.peers.describe()),
            Command::Requests {} => Ok(self.peers.describe_exchanges()),
            Command::ClientMetrics {} => Ok(self.describe_client_metrics()),
            Command::ExpireLocks { group } => Ok(json!({ "released": self.expire_locks_of(&group) })),
            Command::Groups {} => self.describe_groups(),
            Command::Group { group } => self.describe_group(&group),
        }
    }
}
