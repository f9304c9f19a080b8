//! Each admin call ends within its timeout, with an error that names the cause.

use std::net::TcpListener;
use std::time::Duration;

use monedula_broker::{Direction, Effect};
use monedula_client::admin::GroupFilter;
use monedula_client::error::ClientError;

use crate::support::{PATIENCE, World, only, refuse, topic};

const SHORT: Duration = Duration::from_millis(300);

#[test]
fn a_cluster_that_is_not_there_is_named() {
    let world = World::new(&[], 1);
    let closed = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let admin = world.admin(&[("bootstrap.servers", &closed.to_string())]);
    let error = world.run(admin.list_topics(SHORT)).expect_err("nobody is there");
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
    assert!(
        error.to_string().contains(&closed.to_string()) && error.to_string().contains("bootstrap.servers"),
        "{error}"
    );
}

#[test]
fn a_call_that_is_never_answered_ends_in_its_time() {
    let world = World::new(&[], 1);
    let admin = world.admin(&[]);
    world.run(admin.describe_cluster(PATIENCE)).expect("is reached");
    let _hole = world.fault("CreateTopics", &[], Effect::BlackHole { way: Direction::Both }, None);
    let outcome = only(world.run(admin.create_topics(vec![topic("a")], false, SHORT)).expect("asks"));
    let Err(ClientError::TimedOut { what, after, .. }) = outcome else { panic!("{outcome:?}") };
    assert_eq!(what, "creating topic a");
    assert!(after >= SHORT);
}

#[test]
fn a_refusal_that_never_ends_is_told_when_the_time_is_over() {
    let world = World::new(&["events:1"], 1);
    let admin = world.admin(&[]);
    let _refused = world.fault("DeleteTopics", &[], refuse("NOT_CONTROLLER"), None);
    let outcome = only(world.run(admin.delete_topics(vec!["events".into()], SHORT)).expect("asks"));
    let Err(ClientError::TimedOut { last_error: Some(last_error), .. }) = outcome else { panic!("{outcome:?}") };
    assert!(last_error.contains("NOT_CONTROLLER"), "{last_error}");
    let _loading = world.fault("ListGroups", &[], refuse("COORDINATOR_LOAD_IN_PROGRESS"), None);
    let error = world.run(admin.list_groups(GroupFilter::default(), SHORT)).expect_err("never ends");
    assert!(error.to_string().contains("COORDINATOR_LOAD_IN_PROGRESS"), "{error}");
}

#[test]
fn a_lost_request_is_made_again_after_its_own_time() {
    let world = World::new(&[], 1);
    let admin = world.admin(&[("request.timeout.ms", "300")]);
    let lost = world.fault("CreateTopics", &[], Effect::Drop, Some(1));
    only(world.run(admin.create_topics(vec![topic("a")], false, PATIENCE)).expect("asks")).expect("creates");
    assert_eq!(lost.hits().expect("is set"), 1);
}

#[test]
fn closing_ends_what_waits() {
    let world = World::new(&["events:1"], 1);
    let admin = world.admin(&[]);
    let held = world.fault("DeleteTopics", &[], Effect::Hold, None);
    let waiting = world.begin(admin.delete_topics(vec!["events".into()], PATIENCE));
    assert!(held.wait(1, PATIENCE).expect("is set"));
    admin.close(PATIENCE);
    assert!(matches!(world.ended(waiting), Err(ClientError::AdminClosed)));
    assert!(matches!(world.run(admin.list_topics(PATIENCE)), Err(ClientError::AdminClosed)), "and what comes after");
    admin.close(PATIENCE);
}
