package receiver

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/receiver/statsd"
)

func TestDefaultConfigIsValid(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
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
		IdleTimeout: -time.Second, DrainTimeout: -time.Second, Pending: PendingConfig{MaxBytes: -1},
	}
	want := []string{
		`maxLine 10: want at least 512 bytes`,
		`maxTags 0: want at least 1`,
		`pending.maxSenders 0: want at least 1`,
		`pending.maxBytesPerSender 0: want at least 4096`,
		`pending.maxBytes -1: want at least maxBytesPerSender`,
		`pending.maxAge 0s: want at least 1s`,
		`pending.retryInterval 0s: want 1ms to maxAge`,
		`listeners[0].network "udp4": want udp, tcp, unixgram or unix`,
		`listeners[1].address "8125": want host:port or :port`,
		`listeners[1].sockets 65: want 0 to 64`,
		`listeners[1].readBuffer -1: want 0 to 1073741824 bytes`,
		`listeners[2].address "localhost:statsd": port "statsd": want 0 to 65535`,
		`listeners[2].dialect 9: want one of [statsd dogstatsd influx librato signalfx]`,
		`listeners[2].sockets 2: only udp can have more than one`,
		`listeners[3].address "` + strings.Repeat("x", 108) + `": want a path of 1 to 107 bytes`,
		`listeners[4].address "": want a path of 1 to 107 bytes`,
		`listeners[6]: udp :8125 is listeners[5] already`,
		`listeners[7].about "internal": want "external" or nothing`,
		`maxPacket 2097152: want between maxLine and 1048576 bytes`,
		`maxConnectionsPerAddress 0: want at least 1`,
		`maxConnections 0: want at least 1`,
		`idleTimeout -1s: want 0 (never) or more`,
		`drainTimeout -1s: want 0 or more`,
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
	if _, err := New(Config{}, Parts{Ledger: NewLedger()}); err == nil {
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
