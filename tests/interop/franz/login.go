package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// security is how to log in, from the environment: clients use an open connection without a login if it is not given.
type security struct {
	CA        string `json:"ca"`
	Mechanism string `json:"mechanism"`
	Username  string `json:"username"`
	Password  string `json:"password"`
	Token     string `json:"token"`
}

func login() []kgo.Opt {
	given := os.Getenv("FRANZ_SECURITY")
	if given == "" {
		return nil
	}
	var s security
	if err := json.Unmarshal([]byte(given), &s); err != nil {
		panic(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(s.CA))
	return []kgo.Opt{kgo.DialTLSConfig(&tls.Config{RootCAs: roots}), kgo.SASL(s.mechanism())}
}

func (s security) mechanism() sasl.Mechanism {
	switch s.Mechanism {
	case "SCRAM-SHA-256":
		return scram.Auth{User: s.Username, Pass: s.Password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: s.Username, Pass: s.Password}.AsSha512Mechanism()
	case "OAUTHBEARER":
		return oauth.Oauth(func(context.Context) (oauth.Auth, error) { return oauth.Auth{Token: s.Token}, nil })
	}
	return plain.Auth{User: s.Username, Pass: s.Password}.AsMechanism()
}
