//! Helpers that send admin requests.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::create_topics::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
};
use monedula_protocol::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResult,
};
use monedula_protocol::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};

use crate::support::World;

pub(crate) const TOPIC: i8 = 2;
pub(crate) const BROKER: i8 = 4;
pub(crate) const GROUP: i8 = 32;

pub(crate) fn topic(name: &str, partitions: i32, replicas: i16) -> CreatableTopic<'_> {
    CreatableTopic { name, num_partitions: partitions, replication_factor: replicas, ..Default::default() }
}

pub(crate) fn assigned<'a>(name: &'a str, replicas: &[(i32, &[i32])]) -> CreatableTopic<'a> {
    let assignment = |&(partition_index, broker_ids): &(i32, &[i32])| CreatableReplicaAssignment {
        partition_index,
        broker_ids: broker_ids.to_vec(),
        ..Default::default()
    };
    CreatableTopic { assignments: replicas.iter().map(assignment).collect(), ..topic(name, -1, -1) }
}

pub(crate) fn configured<'a>(name: &'a str, configs: &[(&'a str, Option<&'a str>)]) -> CreatableTopic<'a> {
    let config =
        |&(name, value): &(&'a str, Option<&'a str>)| CreatableTopicConfig { name, value, ..Default::default() };
    CreatableTopic { configs: configs.iter().map(config).collect(), ..topic(name, 1, 1) }
}

/// Creates topics. Returns the error code and message of each.
pub(crate) fn create(world: &mut World, topics: Vec<CreatableTopic<'_>>) -> Vec<(i16, Option<String>)> {
    let request = CreateTopicsRequest { topics, ..Default::default() };
    let answer = world.call(1, &request, 7);
    answer.topics.iter().map(|topic| (topic.error_code, topic.error_message.map(str::to_owned))).collect()
}

#[track_caller]
pub(crate) fn refused(world: &mut World, topic: CreatableTopic<'_>, error: ErrorCode, words: &str) {
    assert_eq!(create(world, vec![topic]), [(error.code(), Some(words.to_owned()))]);
}

pub(crate) fn describe(
    world: &mut World,
    kind: i8,
    name: &'static str,
    keys: &[&'static str],
) -> DescribeConfigsResult<'static> {
    let configuration_keys = Some(keys.to_vec());
    let resource =
        DescribeConfigsResource { resource_type: kind, resource_name: name, configuration_keys, ..Default::default() };
    let request = DescribeConfigsRequest { resources: vec![resource], include_synonyms: true, ..Default::default() };
    world.call(1, &request, 4).results.remove(0)
}

/// A config's value, its source, and the names and sources of its synonyms.
pub(crate) type Described = (String, i8, Vec<(String, i8)>);

/// A change of a config: its name, the operation, and the value.
pub(crate) type Change<'a> = (&'a str, i8, Option<&'a str>);

pub(crate) fn described(result: &DescribeConfigsResult<'_>) -> Vec<Described> {
    let config = |config: &monedula_protocol::messages::describe_configs::DescribeConfigsResourceResult<'_>| {
        let synonyms = config.synonyms.iter().map(|synonym| (synonym.name.to_owned(), synonym.source)).collect();
        (config.value.unwrap_or("null").to_owned(), config.config_source, synonyms)
    };
    result.configs.iter().map(config).collect()
}

pub(crate) fn alter(
    world: &mut World,
    kind: i8,
    name: &str,
    changes: &[(&str, i8, Option<&str>)],
) -> (i16, Option<String>) {
    alter_or_validate(world, kind, name, changes, false)
}

pub(crate) fn alter_or_validate(
    world: &mut World,
    kind: i8,
    name: &str,
    changes: &[(&str, i8, Option<&str>)],
    validate_only: bool,
) -> (i16, Option<String>) {
    let change = |&(name, config_operation, value): &(&'static str, i8, Option<&'static str>)| AlterableConfig {
        name,
        config_operation,
        value,
        ..Default::default()
    };
    let leak = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
    let changes: Vec<_> =
        changes.iter().map(|(name, operation, value)| (leak(name), *operation, value.map(leak))).collect();
    let resource = AlterConfigsResource {
        resource_type: kind,
        resource_name: name,
        configs: changes.iter().map(change).collect(),
        ..Default::default()
    };
    let request = IncrementalAlterConfigsRequest { resources: vec![resource], validate_only, ..Default::default() };
    let answer = world.call(1, &request, 1);
    (answer.responses[0].error_code, answer.responses[0].error_message.map(str::to_owned))
}
