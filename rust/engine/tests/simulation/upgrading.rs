//! Plans in which a classic group becomes one of the consumer protocol at a bad moment: what others meet once in thousands of seeds.

use std::time::Duration;

use monedula_engine::Now;

use crate::chance::Chance;
use crate::machine::Naming;
use crate::plan::{Disruption, Plan, Slot};
use monedula_engine::group::GroupProtocol;

/// Longer than any plan: who is to come back is started again when all is well.
const NEVER: Duration = Duration::from_secs(1000);

/// Such a plan for one seed in ten, and one in fifty in which the upgrade is given up.
pub(crate) fn of_seed(plan: &mut Plan) {
    let chance = &mut Chance::new(plan.seed ^ 0x0848);
    match plan.seed % 50 {
        48 => given_up(plan, chance),
        9 | 19 | 29 | 39 | 49 => still_giving_up(plan, chance),
        _ => {}
    }
}

fn slot(plan: &Plan, protocol: GroupProtocol, assignors: &[&'static str]) -> Slot {
    let mut slot = plan.slots[0].clone();
    slot.assignors = assignors.to_vec();
    (slot.instance_id, slot.naming, slot.protocols) = (None, Naming::Names, vec![protocol]);
    slot.topics = plan.topics.iter().map(|(name, ..)| name.clone()).collect();
    (slot.habits.holders, slot.habits.batch_max, slot.habits.seeks) = (1, 5, 0);
    (slot.habits.hold_ms, slot.habits.callback_ms) = (3000, 1500);
    slot
}

/// Users take their time with what they are to give up: a member of the new protocol comes meanwhile. Again and again.
fn still_giving_up(plan: &mut Plan, chance: &mut Chance) {
    let members = chance.between(2, 4);
    let classic = slot(plan, GroupProtocol::Classic, &["cooperative-sticky"]);
    let (joins, upgrades) = (members, members + 1);
    plan.slots = vec![classic; members + 1];
    plan.slots.push(slot(plan, GroupProtocol::Consumer, &["cooperative-sticky"]));
    plan.topics.iter_mut().for_each(|(_, partitions, _)| *partitions = 8);
    (plan.initial_delay_ms, plan.max_poll) = (0, chance.ms(10_000, 30_000));
    plan.disruptions = (0..members).map(|slot| (chance.ms(0, 50), Disruption::Start(slot))).collect();
    let mut at = chance.ms(4000, 8000);
    while at + Duration::from_secs(12) < plan.calm {
        plan.disruptions.push((at, Disruption::Start(joins)));
        if chance.odds(300) {
            plan.disruptions.push((at, Disruption::LoseAnswer(chance.pick::<&str>(&["JoinGroup", "SyncGroup"]))));
        }
        let upgrade = at + chance.ms(10, 4000);
        plan.disruptions.push((upgrade, Disruption::Start(upgrades)));
        plan.disruptions.push((upgrade + chance.ms(500, 5000), Disruption::Close(upgrades, NEVER)));
        at += chance.ms(8000, 11_000);
        plan.disruptions.push((at, Disruption::Kill(joins, NEVER)));
        at += chance.ms(1000, 12_000);
    }
    plan.disruptions.sort_by_key(|(at, _)| *at);
}

/// Members do not agree on a protocol for so long that an upgrade is given up: the one of the last generation is not known to who
/// joins, and the next generation waits for a user.
fn given_up(plan: &mut Plan, chance: &mut Chance) {
    let (old, new, upgrades) = (0, 1, 2);
    plan.slots = vec![
        slot(plan, GroupProtocol::Classic, &["range", "sticky"]),
        slot(plan, GroupProtocol::Classic, &["sticky", "roundrobin"]),
        slot(plan, GroupProtocol::Consumer, &["sticky"]),
    ];
    (plan.initial_delay_ms, plan.max_poll, plan.calm) = (0, Duration::from_secs(60), Now::from_secs(70));
    let at = chance.ms(4000, 6000);
    plan.disruptions = vec![
        (Now::ZERO, Disruption::Start(old)),
        (at, Disruption::Slow(old, Duration::from_secs(50))),
        (at + Duration::from_secs(4), Disruption::Start(new)),
        (at + Duration::from_secs(5), Disruption::Start(upgrades)),
    ];
}
