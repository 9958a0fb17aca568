package loadtest

import (
	"net"
	"strings"
	"testing"
	"time"
)

// A peer with the default socket buffer and occasional delays loses no line of the warm-up.
func TestWarmUpOfASmallBuffer(t *testing.T) {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	defer conn.Close()
	if err := conn.SetReadBuffer(212_992 / 2); err != nil { // which the kernel doubles
		t.Fatal(err)
	}
	to := subject{what: "peer", udp: conn.LocalAddr().(*net.UDPAddr).AddrPort(), warmUpLines: 5_000, warmUpRate: singleWarmUpRate, foreign: true}
	go func() {
		for buffer := make([]byte, maxDatagram); ; {
			time.Sleep(60 * time.Millisecond)
			if conn.SetReadDeadline(time.Now().Add(5*time.Millisecond)) != nil {
				return // it is closed
			}
			for err := error(nil); err == nil; {
				_, err = conn.Read(buffer)
			}
		}
	}()
	s, err := newFlood(newFloodLoad(lineScenarios[0]), 1, to.udp)
	must(t, err)
	defer s.close()
	if _, err := s.warmUp(t.Context(), to.warmUpPlan()); err != nil {
		t.Fatal(err)
	}
	if q, err := readQueue(to.udp); err != nil || q.drops > 0 {
		t.Errorf("%+v, %v: want nothing dropped", q, err)
	}
}

func TestWarmUpLossSaysWhy(t *testing.T) {
	if text := (subject{foreign: true}).warmUpLoss(16).Error(); !strings.Contains(text, "busy") || !strings.Contains(text, "socket buffer") {
		t.Errorf("%q: want both reasons", text)
	}
	if text := (subject{}).warmUpLoss(16).Error(); !strings.Contains(text, "busy") || strings.Contains(text, "buffer") {
		t.Errorf("%q: want that the machine is busy", text)
	}
}
