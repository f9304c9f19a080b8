package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// admin makes one call of kadm and returns the part of its answer that is looked at.
func (d *driver) admin(f fields) (any, error) {
	client, err := kgo.NewClient(d.options()...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	adm := kadm.NewClient(client)
	switch f.Command {
	case "kadm.create_topic":
		created, err := adm.CreateTopic(ctx, f.Partitions, 1, f.Config, f.Topic)
		return created.NumPartitions, err
	case "kadm.delete_topic":
		_, err := adm.DeleteTopic(ctx, f.Topic)
		return nil, err
	case "kadm.topics":
		topics, err := adm.ListTopics(ctx)
		return topics.Names(), err
	case "kadm.partitions":
		topics, err := adm.ListTopics(ctx, f.Topic)
		return topics[f.Topic].Partitions.Numbers(), err
	case "kadm.set_partitions":
		answers, err := adm.UpdatePartitions(ctx, int(f.Partitions), f.Topic)
		return nil, first(err, answers.Error)
	case "kadm.brokers":
		brokers, err := adm.ListBrokers(ctx)
		return brokers.NodeIDs(), err
	case "kadm.config":
		return config(ctx, adm, f)
	case "kadm.alter_config":
		return nil, alterConfig(ctx, adm, f)
	case "kadm.offsets":
		return offsets(ctx, adm, f)
	case "kadm.delete_records":
		var before kadm.Offsets
		before.AddOffset(f.Topic, f.Partition, f.Offset, -1)
		answers, err := adm.DeleteRecords(ctx, before)
		return nil, first(err, answers.Error)
	case "kadm.transactions":
		return transactions(ctx, adm, f)
	}
	return groups(ctx, adm, f)
}

func first(err error, then func() error) error {
	if err != nil {
		return err
	}
	return then()
}

func config(ctx context.Context, adm *kadm.Client, f fields) (any, error) {
	found, err := adm.DescribeTopicConfigs(ctx, f.Topic)
	if err != nil {
		return nil, err
	}
	resource, err := found.On(f.Topic, nil)
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for _, entry := range resource.Configs {
		values[entry.Key] = entry.MaybeValue()
	}
	return values, resource.Err
}

func alterConfig(ctx context.Context, adm *kadm.Client, f fields) error {
	var changes []kadm.AlterConfig
	for name, value := range f.Config {
		op := kadm.SetConfig
		if value == nil {
			op = kadm.DeleteConfig
		}
		changes = append(changes, kadm.AlterConfig{Op: op, Name: name, Value: value})
	}
	answers, err := adm.AlterTopicConfigs(ctx, changes, f.Topic)
	if err != nil {
		return err
	}
	for _, answer := range answers {
		if answer.Err != nil {
			return answer.Err
		}
	}
	return nil
}

func offsets(ctx context.Context, adm *kadm.Client, f fields) (any, error) {
	var listed kadm.ListedOffsets
	var err error
	switch f.How {
	case "start":
		listed, err = adm.ListStartOffsets(ctx, f.Topic)
	case "end":
		listed, err = adm.ListEndOffsets(ctx, f.Topic)
	case "committed":
		listed, err = adm.ListCommittedOffsets(ctx, f.Topic)
	case "max":
		listed, err = adm.ListMaxTimestampOffsets(ctx, f.Topic)
	case "after":
		listed, err = adm.ListOffsetsAfterMilli(ctx, f.Millisecond, f.Topic)
	default:
		return nil, fmt.Errorf("no offsets %q", f.How)
	}
	found := map[int32]int64{}
	listed.Each(func(o kadm.ListedOffset) { found[o.Partition] = o.Offset })
	return found, first(err, listed.Error)
}

func transactions(ctx context.Context, adm *kadm.Client, f fields) (any, error) {
	described, err := adm.DescribeTransactions(ctx, f.TransactionalID)
	if err != nil {
		return nil, err
	}
	one, err := described.On(f.TransactionalID, nil)
	return map[string]any{"state": one.State, "timeout_ms": one.TimeoutMillis}, first(err, func() error { return one.Err })
}

func groups(ctx context.Context, adm *kadm.Client, f fields) (any, error) {
	switch f.Command {
	case "kadm.groups":
		listed, err := adm.ListGroups(ctx)
		return listed.Groups(), err
	case "kadm.group":
		return group(ctx, adm, f)
	case "kadm.consumer_group":
		return consumerGroup(ctx, adm, f)
	case "kadm.lag":
		lags, err := adm.Lag(ctx, f.Group)
		if err != nil {
			return nil, err
		}
		lag := lags[f.Group]
		return lag.Lag.Total(), lag.Error()
	case "kadm.commit":
		var wanted kadm.Offsets
		wanted.AddOffset(f.Topic, f.Partition, f.Offset, -1)
		return nil, adm.CommitAllOffsets(ctx, f.Group, wanted)
	case "kadm.committed":
		answers, err := adm.FetchOffsets(ctx, f.Group)
		found := map[int32]int64{}
		answers.Each(func(o kadm.OffsetResponse) { found[o.Partition] = o.At })
		return found, first(err, answers.Error)
	case "kadm.delete_offsets":
		var wanted kadm.TopicsSet
		wanted.Add(f.Topic, f.Partition)
		answers, err := adm.DeleteOffsets(ctx, f.Group, wanted)
		return nil, first(err, answers.Error)
	case "kadm.delete_group":
		_, err := adm.DeleteGroup(ctx, f.Group)
		return nil, err
	case "kadm.coordinator":
		found := adm.FindGroupCoordinators(ctx, f.Group)
		return found[f.Group].NodeID, found.Error()
	}
	return nil, fmt.Errorf("no command %q", f.Command)
}

func group(ctx context.Context, adm *kadm.Client, f fields) (any, error) {
	described, err := adm.DescribeGroups(ctx, f.Group)
	if err != nil {
		return nil, err
	}
	one := described[f.Group]
	var members []string
	for _, member := range one.Members {
		members = append(members, member.ClientID)
	}
	return map[string]any{"state": one.State, "protocol": one.Protocol, "members": members}, one.Err
}

func consumerGroup(ctx context.Context, adm *kadm.Client, f fields) (any, error) {
	described, err := adm.DescribeConsumerGroups(ctx, f.Group)
	if err != nil {
		return nil, err
	}
	one := described[f.Group]
	owned := []int32{}
	for _, member := range one.Members {
		for partition := range member.Assignment[f.Topic] {
			owned = append(owned, partition)
		}
	}
	slices.Sort(owned)
	return map[string]any{
		"state": one.State, "assignor": one.AssignorName, "owned": owned, "reconciled": one.Epoch == one.AssignmentEpoch,
	}, one.Err
}
