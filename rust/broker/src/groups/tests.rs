//! Tests of offsets in transactions: when they are visible, when they are dropped, and what a failover keeps.

use std::collections::BTreeMap;

use monedula_protocol::error_code::ErrorCode;

use super::{ClassicGroup, Commit, Group, Groups, MemberIdentity, NewOffset, complete_transaction};
use crate::cluster::{Coordinated, NewTopic, NodeId, TopicConfig};
use crate::core::Core;
use crate::draw::Draw;
use crate::settings::Settings;

const NODE: NodeId = NodeId(1);

fn core() -> Core {
    let mut core = Core::new(Settings::default(), 1000).unwrap();
    core.create_topic(NewTopic {
        name: "t".into(),
        config: TopicConfig::default(),
        replicas: vec![vec![NODE], vec![NODE]],
    });
    core.ensure_internal_topic(Coordinated::Groups);
    core
}

fn partition(core: &Core) -> i32 {
    core.coordinator_partition(Coordinated::Groups, "g")
}

fn commit(core: &mut Core, producer_id: Option<i64>, partition: i32, offset: i64) -> Result<Vec<ErrorCode>, ErrorCode> {
    let commit = Commit {
        group_id: "g",
        who: MemberIdentity { member_id: "", instance_id: None, generation_id: -1 },
        version: 9,
        tells_member_epochs: true,
        retention_ms: None,
        producer_id,
        offsets: vec![NewOffset { topic: "t", partition, offset, leader_epoch: -1, metadata: None }],
    };
    core.commit_offsets(NODE, &commit)
}

/// The committed offset of a partition, and whether an open transaction has one for it.
fn look(core: &Core, index: i32) -> (Option<i64>, bool) {
    let Some(slot) = core.groups.slot(partition(core), "g") else { return (None, false) };
    (slot.offsets.get("t", index).map(|found| found.offset), slot.offsets.is_pending("t", index))
}

fn fail_over(core: &mut Core) {
    let partition = partition(core);
    Groups::leader_changed(core, partition);
}

#[test]
fn an_open_transactions_offset_counts_once_it_is_committed() {
    for fails_over in [false, true] {
        for committed in [true, false] {
            let mut core = core();
            commit(&mut core, None, 0, 1).unwrap();
            assert_eq!(commit(&mut core, Some(7), 0, 5), Ok(vec![ErrorCode::None]));
            if fails_over {
                fail_over(&mut core);
            }
            assert_eq!((look(&core, 0), look(&core, 1)), ((Some(1), true), (None, false)));
            let index = partition(&core);
            // The end of producer 8's transaction changes nothing. The end of producer 7's own may be repeated.
            for producer_id in [8, 7, 7] {
                complete_transaction(&mut core, producer_id, index, committed).unwrap();
            }
            let wanted = (Some(if committed { 5 } else { 1 }), false);
            assert_eq!(look(&core, 0), wanted);
            fail_over(&mut core);
            assert_eq!(look(&core, 0), wanted);
        }
    }
}

#[test]
fn a_transaction_cannot_end_where_nobody_leads_or_loads_still() {
    let mut core = core();
    commit(&mut core, Some(7), 0, 5).unwrap();
    let index = partition(&core);
    core.settings.coordinator_load_ms = 100;
    fail_over(&mut core);
    let ended = complete_transaction(&mut core, 7, index, true);
    assert_eq!(ended, Err(ErrorCode::CoordinatorLoadInProgress));
    core.tick(1100);
    assert_eq!(complete_transaction(&mut core, 7, index, true), Ok(()));
    assert_eq!(look(&core, 0), (Some(5), false));
    core.set_leader("__consumer_offsets", index, None).unwrap();
    assert_eq!(complete_transaction(&mut core, 7, index, true), Err(ErrorCode::NotCoordinator));
}

#[test]
fn deleting_a_topic_or_the_group_takes_the_offsets_of_open_transactions_too() {
    for by_topic in [true, false] {
        let mut core = core();
        commit(&mut core, Some(7), 0, 5).unwrap();
        if by_topic {
            core.delete_topic("t");
        } else {
            core.delete_group(NODE, "g").unwrap();
        }
        let index = partition(&core);
        complete_transaction(&mut core, 7, index, true).unwrap();
        assert_eq!(look(&core, 0), (None, false));
        fail_over(&mut core);
        assert_eq!(look(&core, 0), (None, false));
    }
}

#[test]
fn what_cannot_be_stored_has_not_happened() {
    let mut core = core();
    commit(&mut core, None, 0, 1).unwrap();
    let index = partition(&core);
    let changed = core.change_group(index, "g", |_, slot, effects| {
        slot.delete(effects);
        effects.broken = Some(ErrorCode::UnknownServerError);
    });
    assert_eq!(changed, Err(ErrorCode::UnknownServerError));
    assert_eq!(look(&core, 0), (Some(1), false));
    // A group whose creation could not be stored does not exist.
    let changed = core.change_group(index, "new", |_, slot, effects| {
        slot.group = Some(Group::Classic(ClassicGroup::new("new".into())));
        effects.broken = Some(ErrorCode::UnknownServerError);
    });
    assert!(changed.is_err() && core.groups.slot(index, "new").is_none());
    fail_over(&mut core);
    assert_eq!((look(&core, 0), core.groups.slot(index, "new").is_none()), ((Some(1), false), true));
}

/// The expected offsets: all commits are numbered in order, and of those that take effect the latest wins.
#[derive(Default)]
struct Model {
    place: u64,
    committed: BTreeMap<i32, (u64, i64)>,
    pending: BTreeMap<(i64, i32), (u64, i64)>,
}

impl Model {
    fn commit(&mut self, producer_id: Option<i64>, partition: i32, offset: i64) {
        self.place += 1;
        let value = (self.place, offset);
        match producer_id {
            Some(producer_id) => _ = self.pending.insert((producer_id, partition), value),
            None => _ = self.committed.insert(partition, value),
        }
    }

    fn end(&mut self, producer_id: i64, committed: bool) {
        for partition in 0..2 {
            let Some(ended) = self.pending.remove(&(producer_id, partition)) else { continue };
            if committed && self.committed.get(&partition).is_none_or(|found| found.0 < ended.0) {
                self.committed.insert(partition, ended);
            }
        }
    }

    fn look(&self, partition: i32) -> (Option<i64>, bool) {
        let offset = self.committed.get(&partition).map(|found| found.1);
        (offset, self.pending.keys().any(|(_, own)| *own == partition))
    }
}

#[test]
fn the_latest_commit_that_counts_wins_whatever_ends_when() {
    for seed in 0..200 {
        let mut draw = Draw::new(seed);
        let (mut core, mut model) = (core(), Model::default());
        let index = partition(&core);
        for step in 0..60 {
            let (what, producer_id) = (draw.next() % 8, (draw.next() % 3) as i64);
            let (partition, offset) = ((draw.next() % 2) as i32, step);
            match what {
                0 | 1 => {
                    commit(&mut core, None, partition, offset).unwrap();
                    model.commit(None, partition, offset);
                }
                2..=4 => {
                    commit(&mut core, Some(producer_id), partition, offset).unwrap();
                    model.commit(Some(producer_id), partition, offset);
                }
                5 | 6 => {
                    let committed = !draw.next().is_multiple_of(3);
                    complete_transaction(&mut core, producer_id, index, committed).unwrap();
                    model.end(producer_id, committed);
                }
                _ => fail_over(&mut core),
            }
            for partition in 0..2 {
                assert_eq!(look(&core, partition), model.look(partition), "seed {seed}, step {step}, {what}");
            }
        }
    }
}
