package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
)

// registry carries out what is to be done with franz-go's client of a schema registry; an error has the registry's code.
func (d *driver) registry(f fields) (any, error) {
	client, err := sr.NewClient(sr.URLs(f.Target), sr.BasicAuth("anna", "secret"))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	answer, err := asked(sr.WithParams(ctx, sr.Verbose), client, f)
	var refused *sr.ResponseError
	if errors.As(err, &refused) {
		return map[string]any{"code": refused.ErrorCode, "message": refused.Message}, nil
	}
	return answer, err
}

func asked(ctx context.Context, client *sr.Client, f fields) (any, error) {
	var schema sr.Schema
	if len(f.Values) > 0 {
		schema.Schema = f.Values[0]
		if err := schema.Type.UnmarshalText([]byte(f.How)); err != nil {
			return nil, err
		}
	}
	switch f.Command {
	case "sr.register":
		return client.CreateSchema(ctx, f.Name, schema)
	case "sr.look_up":
		return client.LookupSchema(ctx, f.Name, schema)
	case "sr.check":
		return client.CheckCompatibility(ctx, f.Name, -1, schema)
	case "sr.by_id":
		return client.SchemaByID(ctx, int(f.Offset))
	case "sr.usages":
		return client.SchemaUsagesByID(ctx, int(f.Offset))
	case "sr.subjects":
		return client.Subjects(ctx)
	case "sr.versions":
		return client.SubjectVersions(ctx, f.Name)
	case "sr.types":
		return client.SupportedTypes(ctx)
	case "sr.set_level":
		var level sr.CompatibilityLevel
		if err := level.UnmarshalText([]byte(f.How)); err != nil {
			return nil, err
		}
		for _, result := range client.SetCompatibility(ctx, sr.SetCompatibility{Level: level}, f.Name) {
			return result.Level.String(), result.Err
		}
	case "sr.set_mode":
		var mode sr.Mode
		if err := mode.UnmarshalText([]byte(f.How)); err != nil {
			return nil, err
		}
		for _, result := range client.SetMode(ctx, mode, f.Name) {
			return result.Mode.String(), result.Err
		}
	case "sr.delete":
		if _, err := client.DeleteSubject(ctx, f.Name, sr.SoftDelete); err != nil {
			return nil, err
		}
		return client.DeleteSubject(ctx, f.Name, sr.HardDelete)
	}
	return nil, fmt.Errorf("no command %q", f.Command)
}
