// Reads a topic with kgo from offset 0 up to a number of records, and prints the line that benches/measure.py describes.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const idle = 30 * time.Second

func main() {
	fetchMaxBytes := flag.Int("fetch-max-bytes", 50<<20, "bytes in one fetch")
	partitionMaxBytes := flag.Int("partition-max-bytes", 1<<20, "bytes of one partition in one fetch")
	flag.Parse()
	if err := run(flag.Args(), int32(*fetchMaxBytes), int32(*partitionMaxBytes)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string, fetchMaxBytes, partitionMaxBytes int32) error {
	if len(arguments) != 4 {
		return fmt.Errorf("arguments: bootstrap topic records partitions, not %q", arguments)
	}
	topic := arguments[1]
	wanted, err := strconv.ParseInt(arguments[2], 10, 64)
	if err != nil {
		return err
	}
	partitions, err := strconv.ParseInt(arguments[3], 10, 32)
	if err != nil {
		return err
	}
	offsets := make(map[int32]kgo.Offset)
	for partition := range int32(partitions) {
		offsets[partition] = kgo.NewOffset().At(0)
	}

	started, cpuBefore := time.Now(), cpuSeconds()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(arguments[0], ",")...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: offsets}),
		kgo.FetchMaxBytes(fetchMaxBytes),
		kgo.FetchMaxPartitionBytes(partitionMaxBytes),
	)
	if err != nil {
		return err
	}
	defer client.Close()

	var records int64
	var first time.Duration
	var firstRecords int64
	for records < wanted {
		ctx, cancel := context.WithTimeout(context.Background(), idle)
		fetches := client.PollFetches(ctx)
		cancel()
		for _, failed := range fetches.Errors() {
			return fmt.Errorf("%s-%d: %w", failed.Topic, failed.Partition, failed.Err)
		}
		records += int64(fetches.NumRecords())
		if first == 0 && records > 0 {
			first, firstRecords = time.Since(started), records
		}
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"records":       records,
		"seconds":       time.Since(started).Seconds(),
		"cpu_seconds":   cpuSeconds() - cpuBefore,
		"first_seconds": first.Seconds(),
		"first_records": firstRecords,
		"version":       version(),
	})
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "github.com/twmb/franz-go" {
			return module.Version
		}
	}
	return "unknown"
}
