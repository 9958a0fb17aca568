package receiver

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/receiver/ledger"
	"github.com/sluice-metrics/sluice/receiver/pending"
	"github.com/sluice-metrics/sluice/receiver/statsd"
)

func TestDefaultConfigIsValid(t *testing.T) {
	must(t, DefaultConfig().Validate())
}

func TestValidateListsAllFaults(t *testing.T) {
	config := Config{
		Listeners: []Listener{
			{Network: "udp4", Address: ":8125"},
			{Network: "udp", Address: "8125", Sockets: 65, ReadBuffer: -1},
			{Network: "tcp", Address: "localhost:statsd", Sockets: 2, Dialect: 9},
			{Network: "unix", Address: strings.Repeat("x", 108)},
			{Network: "unixgram"},
			{Network: "udp", Address: ":8125"},
			{Network: "udp", Address: ":8125"},
			{Network: "udp", Address: ":0", About: "internal"},
			{Network: "udp", Address: ":0", About: AboutExternal},
		},
		MaxLine: 10, MaxTags: 0, MaxPacket: 2 << 20, MaxConnections: 0,
		IdleTimeout: -time.Second, DrainTimeout: -time.Second, Pending: pending.Config{MaxBytes: -1},
	}
	want := []string{
		`MaxLine is 10; must be at least 512`,
		`MaxTags is 0; must be at least 1`,
		`Pending.MaxSenders is 0; must be at least 1`,
		`Pending.MaxBytesPerSender is 0; must be at least 4KiB`,
		`Pending.MaxBytes is -1; must be at least Pending.MaxBytesPerSender`,
		`Pending.MaxAge is 0s; must be at least 1s`,
		`Pending.RetryInterval is 0s; must be from 1ms to Pending.MaxAge`,
		`Listeners[0].Network is "udp4"; must be udp, tcp, unixgram or unix`,
		`Listeners[1].Address is "8125"; must be host:port`,
		`Listeners[1].Sockets is 65; must be from 0 to 64`,
		`Listeners[1].ReadBuffer is -1; must be from 0 to 1073741824 (1GiB)`,
		`Listeners[2].Address is "localhost:statsd"; its port must be a number from 0 to 65535`,
		`Listeners[2].Dialect is 9; must be one of [statsd dogstatsd influx librato signalfx]`,
		`Listeners[2].Sockets is 2; must be 0 or 1, except for udp`,
		`Listeners[3].Address is "` + strings.Repeat("x", 108) + `"; must be a path of 1 to 107 bytes`,
		`Listeners[4].Address is ""; must be a path of 1 to 107 bytes`,
		`Listeners[6].Address is ":8125", which is also Listeners[5].Address`,
		`Listeners[7].About is "internal"; must be "external" or empty`,
		`MaxPacket is 2097152; must be from MaxLine to 1048576`,
		`MaxConnectionsPerAddress is 0; must be at least 1`,
		`MaxConnections is 0; must be at least 1`,
		`IdleTimeout is -1s; must be 0 (never) or more`,
		`DrainTimeout is -1s; must be 0 or more`,
	}
	got := strings.Split(config.Validate().Error(), "\n")
	if len(got) != len(want) {
		t.Errorf("%d faults, want %d", len(got), len(want))
	}
	for i, fault := range got {
		if i < len(want) && !strings.HasPrefix(fault, want[i]) {
			t.Errorf("fault %d: %s\nwant %s", i, fault, want[i])
		}
	}
}

func TestNewRefusesAnInvalidConfig(t *testing.T) {
	if _, err := New(Config{}, Parts{Ledger: ledger.New()}); err == nil {
		t.Error("no error")
	}
}

func TestDialectByName(t *testing.T) {
	var l Listener
	if err := l.Dialect.UnmarshalText([]byte("signalfx")); err != nil || l.Dialect != statsd.SignalFx {
		t.Errorf("%v, %v", l.Dialect, err)
	}
	if err := l.Dialect.UnmarshalText([]byte("datadog")); err == nil {
		t.Error("an unknown dialect passes")
	}
}
