package loadtest

import (
	"context"
	"net"
	"strings"
	"testing"
)

// Two sockets share port 8125 (0x1FBD) and one has it on all addresses; others have another port or
// address.
const udpTable = `   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  100: 0100007F:1FBD 00000000:0000 07 00000000:00000100 00:00000000 00000000     0        0 21 2 0000000000000000 7
  101: 0100007F:1FBD 00000000:0000 07 00000000:0000000A 00:00000000 00000000     0        0 22 2 0000000000000000 4
  102: 0100007F:1FBE 00000000:0000 07 00000000:00000001 00:00000000 00000000     0        0 23 2 0000000000000000 1
  103: 00000000:1FBD 00000000:0000 07 00000000:00000001 00:00000000 00000000     0        0 24 2 0000000000000000 1
  104: 0200007F:1FBD 00000000:0000 07 00000000:00000001 00:00000000 00000000     0        0 25 2 0000000000000000 1
`

const udp6Table = `  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
 2601: 00000000000000000000000000000000:1FBD 00000000000000000000000000000000:0000 07 00000000:00000300 00:00000000 00000000     0        0 27311 2 0000000000000000 5
`

func TestParseQueues(t *testing.T) {
	got, err := parseQueues(strings.NewReader(udpTable), loopback(8125))
	if want := (queue{sockets: 3, waiting: 267, drops: 12}); err != nil || got != want {
		t.Errorf("%+v, %v: want %+v", got, err, want)
	}
	got, err = parseQueues(strings.NewReader(udp6Table), loopback(8125))
	if want := (queue{sockets: 1, waiting: 768, drops: 5}); err != nil || got != want {
		t.Errorf("IPv6: %+v, %v: want %+v", got, err, want)
	}
	if _, err := parseQueues(strings.NewReader(strings.Replace(udpTable, " 7\n", " x\n", 1)), loopback(8125)); err == nil {
		t.Error("drops that are no number were read")
	}
}

// The kernel's counts of an unread socket are what was sent to it.
func TestReadQueueSeesWaitingAndDropped(t *testing.T) {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	defer conn.Close()
	must(t, conn.SetReadBuffer(8<<10))
	s, err := newFlood(newFloodLoad(lineScenarios[0]), 1, conn.LocalAddr().(*net.UDPAddr).AddrPort())
	must(t, err)
	defer s.close()
	sent, err := s.warmUp(t.Context(), warmUp{10_000, warmUpRate, warmUpLook, func(context.Context) error { return nil }})
	must(t, err)
	q, err := readQueue(conn.LocalAddr().(*net.UDPAddr).AddrPort())
	if err != nil || q.sockets != 1 || q.waiting == 0 || q.drops == 0 || q.drops >= sent.datagrams() {
		t.Fatalf("%+v, %v after %d datagrams: want some waiting, some dropped", q, err, sent.datagrams())
	}
	read, buffer := int64(0), make([]byte, maxDatagram)
	for ; q.waiting > 0; read++ {
		if _, err := conn.Read(buffer); err != nil {
			t.Fatal(err)
		}
		q, err = readQueue(conn.LocalAddr().(*net.UDPAddr).AddrPort())
		must(t, err)
	}
	if read+q.drops != sent.datagrams() {
		t.Errorf("read %d and dropped %d of %d datagrams: want all", read, q.drops, sent.datagrams())
	}
}
