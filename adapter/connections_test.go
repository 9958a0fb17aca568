package adapter

import (
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"
)

// A client that only opens connections keeps no other out.
func TestOneAddressHasItsShareOfConnections(t *testing.T) {
	a := start(t, shop())
	var open []net.Conn
	defer func() {
		for _, conn := range open {
			_ = conn.Close()
		}
	}()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}}
	for range maxConnections + 16 {
		conn, err := dialer.Dial("tcp", a.Addr().String())
		must(t, err)
		open = append(open, conn)
	}
	a.client.CloseIdleConnections()
	resp, err := a.client.Get(a.url + externalRoot + "namespaces/shop/orders_waiting")
	if err != nil {
		t.Fatalf("another address is kept out: %v", err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("%s", resp.Status)
	}
	first := open[0]
	_ = first.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := first.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the oldest connection is not closed: %v", err)
	}
	if held := a.listener.Len(); held > maxConnectionsEach+1 {
		t.Errorf("%d connections are held", held)
	}
}

// A handshake that does not end is cut off, although the library would wait for half a minute.
func TestHandshakesAreBounded(t *testing.T) {
	a := start(t, shop())
	conn, err := net.Dial("tcp", a.Addr().String())
	must(t, err)
	defer conn.Close()
	began := time.Now()
	_ = conn.SetReadDeadline(began.Add(time.Minute))
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
}
