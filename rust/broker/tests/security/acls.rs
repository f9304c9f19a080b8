//! DescribeAcls, CreateAcls and DeleteAcls.

use monedula_broker::settings::Settings;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::create_acls::{AclCreation, CreateAclsRequest};
use monedula_protocol::messages::delete_acls::{DeleteAclsFilter, DeleteAclsRequest};
use monedula_protocol::messages::describe_acls::{DescribeAclsRequest, DescribeAclsResponse};

use crate::support::{Outcome, World};

const ANY: i8 = 1;
const TOPIC: i8 = 2;
const CLUSTER: i8 = 4;
const READ: i8 = 3;
const ALLOW: i8 = 3;

/// A cluster where everybody who connects is a super user.
fn world() -> World {
    World::with(1, &[("authorizer.class.name", "StandardAuthorizer"), ("super.users", "User:ANONYMOUS")])
}

fn creation(resource_type: i8, resource_name: &'static str) -> AclCreation<'static> {
    AclCreation {
        resource_type,
        resource_name,
        principal: "User:anna",
        host: "*",
        operation: READ,
        permission_type: ALLOW,
        ..Default::default()
    }
}

fn create(world: &mut World, creations: &[AclCreation<'static>]) -> Vec<i16> {
    let request = CreateAclsRequest { creations: creations.to_vec(), ..Default::default() };
    world.call(1, &request, 3).results.iter().map(|result| result.error_code).collect()
}

fn everything() -> DescribeAclsRequest<'static> {
    DescribeAclsRequest {
        resource_type_filter: ANY,
        pattern_type_filter: ANY,
        operation: ANY,
        permission_type: ANY,
        resource_name_filter: None,
        principal_filter: None,
        host_filter: None,
        ..Default::default()
    }
}

fn describe(world: &mut World) -> DescribeAclsResponse<'static> {
    world.call(1, &everything(), 3)
}

#[test]
fn what_was_created_is_described_by_resource() {
    let mut world = world();
    let other = AclCreation { principal: "User:ben", ..creation(TOPIC, "orders") };
    assert_eq!(create(&mut world, &[creation(TOPIC, "orders"), other, creation(TOPIC, "events")]), [0, 0, 0]);
    let described = describe(&mut world);
    let resources: Vec<_> =
        described.resources.iter().map(|resource| (resource.resource_name, resource.acls.len())).collect();
    assert_eq!(resources, [("events", 1), ("orders", 2)]);
    assert_eq!(described.resources[1].acls[0].principal, "User:anna");
}

#[test]
fn an_acl_that_exists_is_created_once() {
    let mut world = world();
    assert_eq!(create(&mut world, &[creation(TOPIC, "orders"), creation(TOPIC, "orders")]), [0, 0]);
    assert_eq!(describe(&mut world).resources[0].acls.len(), 1);
}

#[test]
fn an_invalid_acl_is_refused_alone() {
    let mut world = world();
    let invalid = ErrorCode::InvalidRequest.code();
    let codes = create(
        &mut world,
        &[
            creation(TOPIC, ""),
            creation(CLUSTER, "kafka"),
            creation(77, "orders"),
            AclCreation { principal: "anna", ..creation(TOPIC, "orders") },
            creation(CLUSTER, "kafka-cluster"),
        ],
    );
    assert_eq!(codes, [invalid, invalid, invalid, invalid, 0]);
}

#[test]
fn a_code_that_only_filters_have_refuses_the_whole_request() {
    let mut world = world();
    let unexpected = ErrorCode::UnknownServerError.code();
    for wrong in [
        creation(ANY, "orders"),
        AclCreation { operation: ANY, ..creation(TOPIC, "orders") },
        AclCreation { permission_type: ANY, ..creation(TOPIC, "orders") },
        AclCreation { resource_pattern_type: 2, ..creation(TOPIC, "orders") },
    ] {
        assert_eq!(create(&mut world, &[wrong, creation(TOPIC, "orders")]), [unexpected, unexpected]);
    }
    assert_eq!(describe(&mut world).resources.len(), 0);
}

#[test]
fn code_0_closes_the_connection() {
    let mut world = world();
    let request = CreateAclsRequest { creations: vec![creation(0, "orders")], ..Default::default() };
    let pending = world.send(1, &request, 3);
    assert!(matches!(world.outcome(pending.connection), Some(Outcome::Closed(_))));
}

#[test]
fn a_filter_deletes_what_it_selects() {
    let mut world = world();
    create(&mut world, &[creation(TOPIC, "orders"), creation(TOPIC, "events")]);
    let filter = DeleteAclsFilter {
        resource_type_filter: TOPIC,
        resource_name_filter: Some("orders"),
        pattern_type_filter: ANY,
        operation: ANY,
        permission_type: ANY,
        principal_filter: None,
        host_filter: None,
        ..Default::default()
    };
    let deleted = world.call(1, &DeleteAclsRequest { filters: vec![filter], ..Default::default() }, 3);
    let names: Vec<_> = deleted.filter_results[0].matching_acls.iter().map(|acl| acl.resource_name).collect();
    assert_eq!(names, ["orders"]);
    assert_eq!(describe(&mut world).resources.len(), 1);
}

#[test]
fn without_an_authorizer_there_are_no_acls() {
    let mut world = World::new(Settings::default());
    let disabled = ErrorCode::SecurityDisabled.code();
    assert_eq!(describe(&mut world).error_code, disabled);
    assert_eq!(create(&mut world, &[creation(TOPIC, "orders")]), [disabled]);
}

#[test]
fn acls_may_be_seen_and_altered_by_those_who_may_alter_the_cluster() {
    let mut world = World::with(1, &[("authorizer.class.name", "StandardAuthorizer")]);
    let refused = ErrorCode::ClusterAuthorizationFailed.code();
    assert_eq!(describe(&mut world).error_code, refused);
    assert_eq!(create(&mut world, &[creation(TOPIC, "orders")]), [refused]);
    let request = DeleteAclsRequest { filters: vec![DeleteAclsFilter::default()], ..Default::default() };
    // The filter has code 0, which is found first.
    let pending = world.send(1, &request, 3);
    assert!(matches!(world.outcome(pending.connection), Some(Outcome::Closed(_))));
}
