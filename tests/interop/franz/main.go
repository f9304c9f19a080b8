// franz-go, told what to do by lines of JSON; see Driver in ../process.py.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// fields are those of a command; each takes what it knows.
type fields struct {
	ID              int                `json:"id"`
	Command         string             `json:"command"`
	Name            string             `json:"name"`
	Topic           string             `json:"topic"`
	Target          string             `json:"target"`
	Group           string             `json:"group"`
	Instance        string             `json:"instance"`
	TransactionalID string             `json:"transactional_id"`
	Protocol        string             `json:"protocol"`
	Codec           string             `json:"codec"`
	Acks            string             `json:"acks"`
	Values          []string           `json:"values"`
	Partitions      int32              `json:"partitions"`
	Partition       int32              `json:"partition"`
	Offset          int64              `json:"offset"`
	Millisecond     int64              `json:"millisecond"`
	How             string             `json:"how"`
	Config          map[string]*string `json:"config"`
}

type driver struct {
	seeds   []string
	output  *json.Encoder
	writing sync.Mutex
	clients map[string]*member
}

func (d *driver) tell(line map[string]any) {
	d.writing.Lock()
	defer d.writing.Unlock()
	if err := d.output.Encode(line); err != nil {
		os.Exit(1)
	}
}

// options of every client.
func (d *driver) options(more ...kgo.Opt) []kgo.Opt {
	level := kgo.LogLevelInfo
	if os.Getenv("FRANZ_LOG") == "DEBUG" {
		level = kgo.LogLevelDebug
	}
	return append(append([]kgo.Opt{
		kgo.SeedBrokers(d.seeds...),
		kgo.ClientID("interop"),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, level, nil)),
		kgo.AllowAutoTopicCreation(),
	}, login()...), more...)
}

func (d *driver) carryOut(f fields) (any, error) {
	switch f.Command {
	case "produce":
		return d.produce(f)
	case "consume":
		return nil, d.consume(f)
	case "transform":
		return nil, d.transform(f)
	case "stop":
		return nil, d.stop(f)
	case "fence":
		return d.fence(f)
	}
	if strings.HasPrefix(f.Command, "kadm.") {
		return d.admin(f)
	}
	if strings.HasPrefix(f.Command, "sr.") {
		return d.registry(f)
	}
	return nil, fmt.Errorf("no command %q", f.Command)
}

func main() {
	d := &driver{
		seeds:   strings.Split(os.Args[1], ","),
		output:  json.NewEncoder(os.Stdout),
		clients: map[string]*member{},
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var f fields
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		ok, err := d.carryOut(f)
		if err != nil {
			d.tell(map[string]any{"id": f.ID, "error": err.Error(), "message": f.Command})
		} else {
			d.tell(map[string]any{"id": f.ID, "ok": ok})
		}
	}
}
