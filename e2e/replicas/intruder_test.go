package replicas

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"net"
	"net/url"
	"strconv"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/sluice-metrics/sluice/e2e/certificate"
	"github.com/sluice-metrics/sluice/e2e/server"
)

// intruder is a NATS server that connects to a replica as another replica would, with a client that
// publishes what it likes.
type intruder struct {
	*nats.Conn
	t *testing.T
}

// intrude connects to the replicas' address with a certificate; nil: without TLS.
func intrude(t *testing.T, address string, secured *tls.Config) *intruder {
	t.Helper()
	host, port, err := net.SplitHostPort(server.FreeAddress(t, "tcp"))
	must(t, err)
	number, _ := strconv.Atoi(port)
	s, err := natsserver.NewServer(&natsserver.Options{
		ServerName: "intruder", Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, NoSigs: true, NoLog: true,
		NoSystemAccount: true, MaxPayload: 8 << 20,
		Cluster: natsserver.ClusterOpts{Name: "sluice", Host: host, Port: number, PoolSize: -1, TLSConfig: secured,
			TLSTimeout: 2, Compression: natsserver.CompressionOpts{Mode: natsserver.CompressionS2Fast}},
		Routes: []*url.URL{{Scheme: "nats-route", Host: address}},
	})
	must(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the intruder's NATS server is not ready after 10 s")
	}
	conn, err := nats.Connect(s.ClientURL())
	must(t, err)
	t.Cleanup(conn.Close)
	return &intruder{conn, t}
}

// with returns the configuration of TLS for a pair of files. It believes everybody.
func with(t *testing.T, own certificate.Pair) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(own.Certificate, own.Key)
	must(t, err)
	return &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}}
}

// The protocol of replicas: version, type, epoch, incarnation, name, number of the letter, index and
// number of pieces, body.
const (
	version                       = 1
	typeDelta, typeBeat, typeWant = 1, 2, 3

	subjects    = "sluice.v1.sluice."
	epochAt     = 2
	nameAt      = epochAt + 16
	wantNumbers = 1
)

// process is an epoch and an incarnation, as in a message.
type process [16]byte

func message(version, kind byte, from process, name string, body []byte) []byte {
	m := append([]byte{version, kind}, from[:]...)
	m = binary.AppendUvarint(m, uint64(len(name)))
	m = append(m, name...)
	m = binary.AppendUvarint(m, uint64(time.Now().UnixNano()))
	return append(append(m, 0, 1), body...)
}

// beat is what a heartbeat of an origin has: its process and the body.
type beat struct {
	process
	body []byte
}

// hears returns the next heartbeat of an origin.
func (i *intruder) hears(origin string) (b beat) {
	i.t.Helper()
	s, err := i.SubscribeSync(subjects + "flow." + origin + ".beat")
	must(i.t, err)
	defer func() { _ = s.Unsubscribe() }()
	got, err := s.NextMsg(20 * time.Second)
	if err != nil {
		i.t.Fatalf("no heartbeat of %s: %v", origin, err)
	}
	copy(b.process[:], got.Data[epochAt:])
	d := bytes.NewBuffer(got.Data[nameAt:])
	n, _ := binary.ReadUvarint(d)
	d.Next(int(n))
	for range 3 {
		_, _ = binary.ReadUvarint(d)
	}
	b.body = d.Bytes()
	return b
}

// says publishes a message.
func (i *intruder) says(subject string, data []byte) {
	i.t.Helper()
	if err := i.Publish(subjects+subject, data); err != nil {
		i.t.Error(err)
	}
}
