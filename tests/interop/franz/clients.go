package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const patience = 50 * time.Second

// member reads in a group until it is stopped.
type member struct {
	stop func()
	done chan struct{}
}

func (d *driver) produce(f fields) (any, error) {
	options := d.options(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(codec(f.Codec)))
	switch f.Acks {
	case "leader":
		options = append(options, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	case "none":
		options = append(options, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var records []*kgo.Record
	for n, value := range f.Values {
		records = append(records, &kgo.Record{
			Topic: f.Topic, Partition: int32(n) % max(1, f.Partitions), Value: []byte(value),
			Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("1")}},
		})
	}
	results := client.ProduceSync(ctx, records...)
	var offsets []int64
	for _, result := range results {
		offsets = append(offsets, result.Record.Offset)
	}
	return offsets, results.FirstErr()
}

func codec(name string) kgo.CompressionCodec {
	switch name {
	case "gzip":
		return kgo.GzipCompression()
	case "snappy":
		return kgo.SnappyCompression()
	case "lz4":
		return kgo.Lz4Compression()
	case "zstd":
		return kgo.ZstdCompression()
	}
	return kgo.NoCompression()
}

func (d *driver) groupOptions(f fields) []kgo.Opt {
	tell := func(event string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			d.tell(map[string]any{"event": event, "member": f.Name, "partitions": partitions})
		}
	}
	options := d.options(
		kgo.ConsumerGroup(f.Group),
		kgo.ConsumeTopics(f.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.HeartbeatInterval(200*time.Millisecond),
		kgo.SessionTimeout(6*time.Second),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(100*time.Millisecond),
		kgo.MetadataMinAge(100*time.Millisecond),
		kgo.MetadataMaxAge(500*time.Millisecond),
		kgo.OnPartitionsAssigned(tell("assigned")),
		kgo.OnPartitionsRevoked(tell("revoked")),
		kgo.OnPartitionsLost(tell("lost")),
	)
	switch f.Protocol {
	case "range":
		options = append(options, kgo.Balancers(kgo.RangeBalancer()))
	case "sticky":
		options = append(options, kgo.Balancers(kgo.StickyBalancer()))
	case "consumer":
		options = append(options, kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer())
	default:
		options = append(options, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	}
	if f.Instance != "" {
		options = append(options, kgo.InstanceID(f.Instance))
	}
	return options
}

func (d *driver) consume(f fields) error {
	client, err := kgo.NewClient(d.groupOptions(f)...)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{done: make(chan struct{})}
	m.stop = func() {
		cancel()
		<-m.done
		if err := client.CommitUncommittedOffsets(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "commit at the end:", err)
		}
		client.Close()
	}
	d.clients[f.Name] = m
	go func() {
		defer close(m.done)
		for ctx.Err() == nil {
			d.report(f.Name, client.PollFetches(ctx))
		}
	}()
	return nil
}

func (d *driver) report(name string, fetches kgo.Fetches) {
	fetches.EachError(func(topic string, partition int32, err error) {
		if !errors.Is(err, context.Canceled) {
			d.tell(map[string]any{"event": "error", "member": name, "error": fmt.Sprintf("%s-%d: %v", topic, partition, err)})
		}
	})
	fetches.EachRecord(func(r *kgo.Record) {
		d.tell(map[string]any{
			"event": "record", "member": name, "partition": r.Partition, "offset": r.Offset, "value": string(r.Value),
			"headers": len(r.Headers),
		})
	})
}

// transform reads a topic and writes what it read to another, both or neither in each transaction.
func (d *driver) transform(f fields) error {
	options := append(d.groupOptions(f), kgo.TransactionalID(f.TransactionalID), kgo.RequireStableFetchOffsets(),
		kgo.TransactionTimeout(20*time.Second))
	session, err := kgo.NewGroupTransactSession(options...)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{done: make(chan struct{})}
	m.stop = func() {
		cancel()
		<-m.done
		session.Close()
	}
	d.clients[f.Name] = m
	go func() {
		defer close(m.done)
		for ctx.Err() == nil {
			fetches := session.PollRecords(ctx, 20)
			if fetches.NumRecords() == 0 {
				continue
			}
			committed, err := transact(session, fetches, f.Target)
			line := map[string]any{"event": "transaction", "member": f.Name, "committed": committed}
			if err != nil {
				line["error"] = err.Error()
			}
			d.tell(line)
		}
	}()
	return nil
}

func transact(session *kgo.GroupTransactSession, fetches kgo.Fetches, target string) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := session.Begin(); err != nil {
		return false, err
	}
	fetches.EachRecord(func(r *kgo.Record) {
		value := strings.ToUpper(string(r.Value))
		session.Produce(ctx, &kgo.Record{Topic: target, Value: []byte(value)}, nil)
	})
	return session.End(ctx, kgo.TryCommit)
}

func (d *driver) stop(f fields) error {
	m, there := d.clients[f.Name]
	if !there {
		return fmt.Errorf("no member %q", f.Name)
	}
	delete(d.clients, f.Name)
	m.stop()
	return nil
}

// fence lets a second producer take a transactional id, and returns what the first is told then.
func (d *driver) fence(f fields) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var clients []*kgo.Client
	for range 2 {
		client, err := kgo.NewClient(d.options(kgo.TransactionalID(f.TransactionalID))...)
		if err != nil {
			return nil, err
		}
		defer client.Close()
		clients = append(clients, client)
	}
	one := func(client *kgo.Client, value string) error {
		if err := client.BeginTransaction(); err != nil {
			return err
		}
		return client.ProduceSync(ctx, &kgo.Record{Topic: f.Topic, Value: []byte(value)}).FirstErr()
	}
	if err := one(clients[0], "old"); err != nil {
		return nil, err
	}
	if err := one(clients[1], "new"); err != nil {
		return nil, err
	}
	told := clients[0].EndTransaction(ctx, kgo.TryCommit)
	if told == nil {
		return nil, errors.New("the older producer was not fenced")
	}
	return told.Error(), clients[1].EndTransaction(ctx, kgo.TryCommit)
}
