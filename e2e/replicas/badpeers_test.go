package replicas

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/e2e/server"
)

var loopbackIP = net.IPv4(127, 0, 0, 1)

// rejected is how many messages a replica has rejected for a reason.
func rejected(s *server.Server, reason string) float64 {
	return s.Metrics()[fmt.Sprintf("sluice_replica_rejected_total{reason=%q}", reason)]
}

// awaitRejected waits until each replica has rejected messages for a reason.
func awaitRejected(t *testing.T, reason string, m ...*server.Server) {
	t.Helper()
	for i, s := range m {
		server.Within(t, func() string {
			if rejected(s, reason) == 0 {
				return fmt.Sprintf("replica %d has rejected nothing with reason %s", i, reason)
			}
			return ""
		})
	}
}

// wantSaid ends a server and requires that its log has each text.
func wantSaid(t *testing.T, s *server.Server, texts ...string) {
	t.Helper()
	s.Stop()
	for _, text := range texts {
		if !strings.Contains(s.Said(), text) {
			t.Errorf("the log does not say %q:\n%s", text, s.Said())
		}
	}
}

// Nobody becomes a replica without a replica's certificate, whatever he publishes. Each refusal is
// counted, and the log says why.
func TestStrangersAreRefused(t *testing.T) {
	t.Parallel()
	ca, other := newAuthority(t), newAuthority(t)
	own := func(by authority, name string, template *x509.Certificate) *tls.Config {
		return with(t, by.issueAs(name, template))
	}
	onLoopback := func() *x509.Certificate { return &x509.Certificate{IPAddresses: []net.IP{loopbackIP}} }
	bare := own(ca, "bare", onLoopback())
	bare.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return new(tls.Certificate), nil }
	strangers := []struct {
		name, said string
		secured    *tls.Config
		s          *server.Server
		address    string
	}{
		{name: "no certificate", said: "the other end has no certificate", secured: bare},
		{name: "certificate of another authority", said: "unknown authority", secured: own(other, "foreign", onLoopback())},
		{name: "certificate of no peer", said: "must name a host of the peers", secured: own(ca, "web", &x509.Certificate{DNSNames: []string{"web.example"}})},
		{name: "certificate that has ended", said: "has expired", secured: own(ca, "ended",
			&x509.Certificate{IPAddresses: []net.IP{loopbackIP}, NotAfter: time.Now().Add(-time.Second)})},
		{name: "no TLS", said: "TLS"},
	}
	var starting sync.WaitGroup
	for i := range strangers {
		one := &strangers[i]
		one.address = server.FreeAddress(t, "tcp")
		one.s = server.New(t, meshFlags(ca, fmt.Sprint("sluice-", i), one.address, []string{one.address})...)
		starting.Go(func() {
			if err := one.s.TryStart(); err != nil {
				t.Error(err)
			}
		})
	}
	starting.Wait()
	var forgers []*intruder
	for i := range strangers {
		send(t, strangers[i].s, "own:1|c")
		forgers = append(forgers, intrude(t, strangers[i].address, strangers[i].secured))
	}
	for range 60 { // three seconds: a route is tried every second
		for _, one := range forgers {
			one.says("flow.forged.beat", message(version, typeBeat, process{1}, "forged", []byte("forged")))
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, one := range strangers {
		metrics := one.s.Metrics()
		if one.secured != nil && metrics["sluice_replica_refused_connections_total"] == 0 {
			t.Errorf("%s: no refused connection is counted", one.name)
		}
		if metrics["sluice_replica_connections"] != 0 || metrics["sluice_replica_origins"] != 0 {
			t.Errorf("%s: %v connections, %v origins", one.name, metrics["sluice_replica_connections"], metrics["sluice_replica_origins"])
		}
		for _, reason := range []string{"version", "damaged", "name", "flood", "windows", "size"} {
			if n := rejected(one.s, reason); n != 0 {
				t.Errorf("%s: %v messages of the stranger arrived (%s)", one.name, n, reason)
			}
		}
		if got, err := sum(one.s, "own:total")(); err != nil || got != 1 {
			t.Errorf("%s: reads %v (%v), want 1", one.name, got, err)
		}
		wantSaid(t, one.s, one.said)
	}
}

// A replica with a valid certificate that speaks another version, is damaged, or floods. Each
// message is named by its reason, the others answer right and stay ready.
func TestBadReplicaIsNamed(t *testing.T) {
	t.Parallel()
	m, ca, addresses := newMeshOf(t, 2)
	m.start(t)
	sent := 0
	count := func() {
		for _, s := range m {
			send(t, s, "hits:1|c")
			sent++
		}
	}
	count()
	bad := intrude(t, addresses[0], with(t, ca.issue("bad", loopbackIP)))
	good := bad.hears("sluice-0") // also: it is connected
	_ = bad.hears("sluice-1")

	bad.says("flow.newer.beat", message(version+1, typeBeat, process{1}, "newer", good.body))
	awaitRejected(t, "version", m...)
	bad.says("flow.windows.beat", message(version, typeBeat, process{2}, "windows", append(good.body[:len(good.body)-8:len(good.body)-8], "no clock"...)))
	awaitRejected(t, "windows", m...)
	bad.says("flow.somebody.beat", message(version, typeBeat, process{3}, "else", good.body))
	awaitRejected(t, "name", m...)
	for range 100 {
		bad.says("flow.junk.delta.0", append([]byte{version}, junk(1+rand.IntN(200))...))
	}
	awaitRejected(t, "damaged", m...)
	count()

	floods(bad, good, func() bool { return rejected(m[0], "flood") > 0 }) // which it asks
	awaitRejected(t, "flood", m[0])
	count()
	wantTotals(t, m, map[string]float64{"hits:total": float64(sent)})
	for i, s := range m {
		checks, err := s.Checks()
		if says := checks["replicas"]; err != nil || !says.Ready {
			t.Errorf("replica %d is not ready: %+v (%v)", i, says, err)
		}
		resident := s.Metrics()["process_resident_memory_bytes"] / (1 << 20)
		t.Logf("replica %d has %.0f MiB after the flood", i, resident)
		if resident == 0 || resident > 512 {
			t.Errorf("replica %d has %.0f MiB after the flood", i, resident)
		}
	}
	wantSaid(t, m[1], "reason=version", "origin=newer", "reason=windows", "reason=name", "reason=damaged")
	wantSaid(t, m[0], "reason=version", "reason=flood", "origin=greedy")
}

// floods publishes for two seconds, and until it is noticed (a slow machine takes questions together), as an
// origin that others follow: blocks that cannot be read, letters that never end, and questions that a follower
// does not have.
func floods(bad *intruder, good beat, noticed func() bool) {
	want := append(good.process[:], wantNumbers, 0)
	bad.says("flow.junk.beat", message(version, typeBeat, process{4}, "junk", good.body))
	for began := time.Now(); time.Since(began) < 2*time.Second || !noticed() && time.Since(began) < time.Minute; {
		for range 50 {
			body := binary.AppendUvarint(nil, rand.Uint64N(4)) // block, number, flush, first
			body = append(body, byte(rand.IntN(9)), byte(rand.IntN(9)), 0)
			bad.says("flow.junk.delta.0", message(version, typeDelta, process{4}, "junk", append(body, junk(4<<10)...)))
			bad.says("want.sluice-0", message(version, typeWant, process{5}, "greedy", want))
		}
		endless := message(version, typeDelta, process{4}, "junk", nil)
		endless[len(endless)-1] = 128 - 1 // pieces, of which this is the first
		bad.says("flow.junk.delta.0", append(endless, junk(512<<10)...))
		bad.says("flow.junk.beat", message(version, typeBeat, process{4}, "junk", good.body))
		time.Sleep(10 * time.Millisecond)
	}
}

func junk(bytes int) []byte {
	all := make([]byte, bytes)
	for i := range all {
		all[i] = byte(rand.Uint32())
	}
	return all
}

// Two processes have one name, and one of them a copy of the other's data: whoever hears both says so.
func TestTwoReplicasOfOneName(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	addresses := []string{server.FreeAddress(t, "tcp"), server.FreeAddress(t, "tcp"), server.FreeAddress(t, "tcp")}
	var m mesh
	for i, name := range []string{"sluice-0", "sluice-1", "sluice-0"} {
		m = append(m, server.New(t, meshFlags(ca, name, addresses[i], addresses)...))
	}
	m[:2].start(t)
	send(t, m[0], "hits:3|c")
	send(t, m[1], "hits:4|c")
	wantTotals(t, m[:2], map[string]float64{"hits:total": 7})
	m[0].Stop()
	must(t, os.CopyFS(m[2].DataDir(), os.DirFS(m[0].DataDir())))
	m[0].Start()
	m[2].Start()
	awaitRejected(t, "name", m[0])
	wantTotals(t, m, map[string]float64{"hits:total": 7})
	wantSaid(t, m[2])
	wantTotals(t, m[:2], map[string]float64{"hits:total": 7})
	wantSaid(t, m[0], "two processes have this name and a copy of one data folder")
}

// A certificate ends, and a new one is put in its place: the replica is refused until then, with the
// reason, and needs no restart after it.
func TestCertificateEnds(t *testing.T) {
	t.Parallel()
	m, ca, _ := newMeshOf(t, 2)
	m.start(t)
	send(t, m[0], "hits:3|c")
	send(t, m[1], "hits:4|c")
	wantTotals(t, m, map[string]float64{"hits:total": 7})
	ca.issueAs("sluice-1", &x509.Certificate{IPAddresses: []net.IP{loopbackIP}, NotAfter: time.Now().Add(time.Second)})
	time.Sleep(2 * time.Second)
	m[1].Kill() // an open connection would last
	m[1].Start()
	const expires = "sluice_replica_certificate_expires_timestamp_seconds"
	server.Within(t, func() string {
		refused := m[0].Metrics()["sluice_replica_refused_connections_total"]
		if end := m[1].Metrics()[expires]; refused == 0 || end == 0 || end > float64(time.Now().Unix()) {
			return fmt.Sprintf("%v refused connections; the certificate ends at %v", refused, end)
		}
		return ""
	})
	wantTotals(t, m[:1], map[string]float64{"hits:total": 7}) // as last known
	ca.issue("sluice-1", loopbackIP)
	m.joined(t, 1)
	send(t, m[1], "hits:5|c")
	wantTotals(t, m, map[string]float64{"hits:total": 12})
	wantSaid(t, m[0], "refused a connection between replicas", "has expired")
	wantSaid(t, m[1], "reloaded the certificate of the connections between replicas")
}
