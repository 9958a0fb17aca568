package adapter

import (
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
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
		if err != nil {
			t.Fatal(err)
		}
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
	last := open[len(open)-1]
	_ = last.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := last.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the last connection is not closed: %v", err)
	}
	if refused := testutil.ToFloat64(a.metrics.refused); refused != maxConnections+16-maxConnectionsEach {
		t.Errorf("%v connections are counted as refused", refused)
	}

	for _, conn := range open {
		_ = conn.Close()
	}
	eventually(t, "the share is free again", func() bool {
		conn, err := dialer.Dial("tcp", a.Addr().String())
		if err != nil {
			return false
		}
		defer conn.Close()
		_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		_, err = conn.Read(make([]byte, 1))
		timeout, ok := err.(net.Error)
		return ok && timeout.Timeout() // it stays open
	})
}
