//! The online migration of KIP-848: groups that change between the classic and the consumer protocol while they have
//! members.

use monedula_protocol::messages::consumer_protocol::ConsumerProtocolAssignment;
use monedula_protocol::messages::heartbeat::HeartbeatRequest;
use monedula_protocol::messages::join_group::{JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse};
use monedula_protocol::messages::leave_group::{LeaveGroupRequest, MemberIdentity};
use monedula_protocol::messages::list_groups::ListGroupsRequest;
use monedula_protocol::messages::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment};

use crate::client::{Client, GROUP, create, describe, member, settle};
use crate::support::{Pending, World};

const UNKNOWN_SERVER_ERROR: i16 = -1;
const UNKNOWN_MEMBER_ID: i16 = 25;
const INCONSISTENT_GROUP_PROTOCOL: i16 = 23;
const REBALANCE_IN_PROGRESS: i16 = 27;
const GROUP_ID_NOT_FOUND: i16 = 69;

/// A subscription to `orders`, in version 1, of a member that owns these partitions.
fn subscription(owned: &[i32]) -> Vec<u8> {
    let mut bytes = vec![0, 1, 0, 0, 0, 1, 0, 6];
    bytes.extend(b"orders");
    bytes.extend((-1i32).to_be_bytes());
    bytes.extend(i32::from(!owned.is_empty()).to_be_bytes());
    if !owned.is_empty() {
        bytes.extend([0, 6]);
        bytes.extend(b"orders");
        bytes.extend((owned.len() as i32).to_be_bytes());
        owned.iter().for_each(|partition| bytes.extend(partition.to_be_bytes()));
    }
    bytes
}

/// An assignment of partitions of `orders`.
fn assignment(partitions: &[i32]) -> Vec<u8> {
    let mut bytes = vec![0, 1, 0, 0, 0, 1, 0, 6];
    bytes.extend(b"orders");
    bytes.extend((partitions.len() as i32).to_be_bytes());
    partitions.iter().for_each(|partition| bytes.extend(partition.to_be_bytes()));
    bytes.extend((-1i32).to_be_bytes());
    bytes
}

fn partitions(assignment: &[u8]) -> Vec<i32> {
    let read = ConsumerProtocolAssignment::read(assignment).unwrap();
    read.assigned_partitions.iter().flat_map(|topic| topic.partitions.clone()).collect()
}

/// A member of the classic protocol.
#[derive(Debug)]
struct Classic {
    id: String,
    generation: i32,
    owned: Vec<i32>,
    assignors: &'static [&'static str],
}

impl Classic {
    fn new() -> Self {
        Self::offering(&["range"])
    }

    fn offering(assignors: &'static [&'static str]) -> Self {
        Self { id: String::new(), generation: -1, owned: Vec::new(), assignors }
    }

    fn send_join(&self, world: &mut World) -> Pending<JoinGroupRequest<'static>> {
        let metadata: &'static [u8] = subscription(&self.owned).leak();
        let protocol = |&name: &&'static str| JoinGroupRequestProtocol { name, metadata, ..Default::default() };
        let request = JoinGroupRequest {
            group_id: GROUP,
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 60_000,
            member_id: Box::leak(self.id.clone().into_boxed_str()),
            protocol_type: "consumer",
            protocols: self.assignors.iter().map(protocol).collect(),
            ..Default::default()
        };
        let connection = world.connect(1);
        world.send_on(connection, &request, 9)
    }

    fn ask_for_id(&mut self, world: &mut World) {
        let pending = self.send_join(world);
        self.id = world.take(&pending).unwrap().member_id.to_owned();
    }

    fn join(&mut self, world: &mut World) -> JoinGroupResponse<'static> {
        let mut pending = self.send_join(world);
        let mut answer = world.take(&pending).unwrap();
        if answer.error_code == 79 {
            self.id = answer.member_id.to_owned();
            pending = self.send_join(world);
            answer = world.take(&pending).unwrap();
        }
        if answer.error_code == 0 {
            (self.id, self.generation) = (answer.member_id.to_owned(), answer.generation_id);
        }
        answer
    }

    fn sync(&mut self, world: &mut World, assigned: Option<&[i32]>) -> i16 {
        let bytes = assigned.map(assignment).unwrap_or_default();
        let own = SyncGroupRequestAssignment { member_id: &self.id, assignment: &bytes, ..Default::default() };
        let request = SyncGroupRequest {
            group_id: GROUP,
            generation_id: self.generation,
            member_id: &self.id,
            protocol_type: Some("consumer"),
            protocol_name: Some("range"),
            assignments: assigned.map(|_| own).into_iter().collect(),
            ..Default::default()
        };
        let answer = world.call(1, &request, 5);
        if answer.error_code == 0 {
            self.owned = partitions(answer.assignment);
        }
        answer.error_code
    }

    fn beat(&self, world: &mut World) -> i16 {
        let request = HeartbeatRequest {
            group_id: GROUP,
            generation_id: self.generation,
            member_id: &self.id,
            ..Default::default()
        };
        world.call(1, &request, 4).error_code
    }

    /// Sends heartbeats, and joins and syncs if they say so, until the group is stable.
    fn settle(&mut self, world: &mut World, others: &mut [&mut Client]) {
        for _ in 0..16 {
            others.iter_mut().for_each(|other| other.beat(world));
            match self.beat(world) {
                0 => {
                    settle(world, others);
                    if self.beat(world) == 0 {
                        return;
                    }
                }
                REBALANCE_IN_PROGRESS => {
                    assert_eq!(self.join(world).error_code, 0);
                    self.sync(world, None);
                }
                error => panic!("error {error}"),
            }
        }
        panic!("the group does not settle");
    }
}

fn kind(world: &mut World) -> (&'static str, &'static str) {
    let group = world.call(1, &ListGroupsRequest::default(), 5).groups.remove(0);
    (group.group_type, group.group_state)
}

/// A stable classic group with one member, which owns both partitions.
fn classic_group(world: &mut World) -> Classic {
    create(world, "orders", 2);
    let mut old = Classic::new();
    assert_eq!(old.join(world).error_code, 0);
    assert_eq!(old.sync(world, Some(&[0, 1])), 0);
    assert_eq!((old.owned.clone(), kind(world)), (vec![0, 1], ("classic", "Stable")));
    old
}

#[test]
fn a_classic_group_is_upgraded_in_place_and_downgraded_again() {
    let mut world = World::default();
    let mut old = classic_group(&mut world);
    let mut new = Client::new("new", &["orders"]);
    new.join(&mut world);
    assert_eq!(kind(&mut world).0, "consumer");
    assert!(new.owned.is_empty(), "given before the classic member gave it back");
    let group = describe(&mut world, 1);
    assert_eq!((member(&group, &old.id).member_type, member(&group, "new").member_type), (0, 1));

    // The classic member must join again, and acknowledges the revocation with its next join.
    assert_eq!(old.beat(&mut world), REBALANCE_IN_PROGRESS);
    assert_eq!(old.join(&mut world).error_code, 0);
    assert_eq!(old.sync(&mut world, None), 0);
    assert_eq!(old.owned.len(), 1);
    new.beat(&mut world);
    assert!(new.owned.is_empty());
    old.settle(&mut world, &mut [&mut new]);
    assert_eq!((old.owned.len(), new.owned.len(), kind(&mut world)), (1, 1, ("consumer", "Stable")));
    assert!(new.owned.iter().all(|(_, partition)| !old.owned.contains(partition)));

    // The last member of the consumer protocol leaves: the group is a classic one again, and rebalances.
    new.leave(&mut world, -1);
    assert_eq!(kind(&mut world), ("classic", "PreparingRebalance"));
    assert_eq!(old.beat(&mut world), REBALANCE_IN_PROGRESS);
    let answer = old.join(&mut world);
    assert_eq!((answer.error_code, answer.leader), (0, old.id.as_str()));
    assert_eq!(old.sync(&mut world, Some(&[0, 1])), 0);
    assert_eq!((old.owned.len(), kind(&mut world)), (2, ("classic", "Stable")));
}

#[test]
fn a_classic_member_joins_a_consumer_group() {
    let mut world = World::default();
    create(&mut world, "orders", 2);
    let mut new = Client::new("new", &["orders"]);
    new.join(&mut world);
    let mut old = Classic::new();
    let answer = old.join(&mut world);
    assert_eq!((answer.error_code, answer.protocol_name, answer.leader), (0, Some("range"), ""));
    assert_eq!(old.sync(&mut world, None), 0);
    assert!(old.owned.is_empty());
    old.settle(&mut world, &mut [&mut new]);
    assert_eq!((old.owned.len(), new.owned.len()), (1, 1));
    // The classic member leaves with a LeaveGroup. A second one fails.
    let leaver = MemberIdentity { member_id: &old.id, ..Default::default() };
    let request = LeaveGroupRequest { group_id: GROUP, members: vec![leaver], ..Default::default() };
    assert_eq!(world.call(1, &request, 5).members[0].error_code, 0);
    assert_eq!(world.call(1, &request, 5).members[0].error_code, UNKNOWN_MEMBER_ID);
    settle(&mut world, &mut [&mut new]);
    assert_eq!(new.owned.len(), 2);
}

#[test]
fn a_classic_member_that_is_silent_or_does_not_join_again_is_removed() {
    let mut world = World::default();
    let old = classic_group(&mut world);
    let mut new = Client::new("new", &["orders"]);
    new.join(&mut world);
    // Its session timeout is the one of its JoinGroup.
    world.advance(9_999);
    assert_eq!(old.beat(&mut world), REBALANCE_IN_PROGRESS);
    world.advance(10_000);
    assert_eq!(old.beat(&mut world), UNKNOWN_MEMBER_ID);
    settle(&mut world, &mut [&mut new]);
    assert_eq!(new.owned.len(), 2);
}

#[test]
fn the_policy_says_which_way_groups_may_go() {
    let mut world = World::with(1, &[("group.consumer.migration.policy", "downgrade")]);
    classic_group(&mut world);
    let new = Client::new("new", &["orders"]);
    assert_eq!(new.ask(&mut world, &new.full()).error_code, GROUP_ID_NOT_FOUND);
    assert_eq!(kind(&mut world).0, "classic");

    let mut world = World::with(1, &[("group.consumer.migration.policy", "disabled")]);
    create(&mut world, "orders", 2);
    let mut new = Client::new("new", &["orders"]);
    new.join(&mut world);
    assert_eq!(Classic::new().join(&mut world).error_code, INCONSISTENT_GROUP_PROTOCOL);

    let mut world = World::with(1, &[("group.consumer.migration.policy", "upgrade")]);
    let mut old = classic_group(&mut world);
    let mut new = Client::new("new", &["orders"]);
    new.join(&mut world);
    old.settle(&mut world, &mut [&mut new]);
    new.leave(&mut world, -1);
    // As in Kafka, only a JoinGroup or a ConsumerGroupHeartbeat computes a target assignment, not a Heartbeat.
    assert_eq!((old.beat(&mut world), kind(&mut world)), (0, ("consumer", "Assigning")));
    assert_eq!((old.join(&mut world).error_code, old.sync(&mut world, None)), (0, 0));
    assert_eq!((old.owned.len(), kind(&mut world)), (2, ("consumer", "Stable")));
}

#[test]
fn an_empty_group_changes_its_kind_either_way() {
    let mut world = World::default();
    create(&mut world, "orders", 2);
    let mut new = Client::new("new", &["orders"]);
    new.join(&mut world);
    new.leave(&mut world, -1);
    let mut old = Classic::new();
    assert_eq!(old.join(&mut world).error_code, 0);
    assert_eq!(kind(&mut world).0, "classic");
    let leaver = MemberIdentity { member_id: &old.id, ..Default::default() };
    world.call(1, &LeaveGroupRequest { group_id: GROUP, members: vec![leaver], ..Default::default() }, 5);
    new.join(&mut world);
    assert_eq!((kind(&mut world).0, new.owned.len()), ("consumer", 2));
}

// As in Kafka 4.3, whose coordinator fails because it assumes that the group has a protocol.
#[test]
fn a_group_is_not_upgraded_before_its_members_have_agreed_on_a_protocol() {
    let mut world = World::with(1, &[("group.initial.rebalance.delay.ms", "3000")]);
    create(&mut world, "orders", 2);
    let mut new = Client::new("new", &["orders"]);
    // The first rebalance still waits for members.
    let mut one = Classic::offering(&["roundrobin", "range"]);
    one.ask_for_id(&mut world);
    let first = one.send_join(&mut world);
    let answer = new.ask(&mut world, &new.full());
    assert_eq!((answer.error_code, answer.error_message), (UNKNOWN_SERVER_ERROR, None));
    world.advance(3000);
    let joined = world.take(&first).unwrap();
    assert_eq!((joined.error_code, joined.protocol_name), (0, Some("roundrobin")));
    // Nor while a member joins that does not support the agreed protocol.
    let mut two = Classic::new();
    two.ask_for_id(&mut world);
    let second = two.send_join(&mut world);
    assert_eq!(new.ask(&mut world, &new.full()).error_code, UNKNOWN_SERVER_ERROR);
    let again = one.send_join(&mut world);
    let joined = [again, second].map(|join| world.take(&join).unwrap().protocol_name);
    assert_eq!(joined, [Some("range"); 2]);
    new.join(&mut world);
    assert_eq!(kind(&mut world).0, "consumer");
}
