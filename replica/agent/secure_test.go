package agent

import (
	"crypto/tls"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/internal/mutualtls/testauthority"
)

// A server's certificate may be renewed by another authority while agents run: each connection goes by the file as it is then.
func TestAuthoritiesAreReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.crt")
	renew := func() *tls.Config {
		cert, key, ca := testauthority.New(t).Sign(t, t.TempDir(), testauthority.Leaf{})
		must(t, os.Rename(ca, file))
		pair, err := tls.LoadX509KeyPair(cert, key)
		must(t, err)
		return &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}}
	}
	first := renew()
	agents, err := newSecure(file)
	must(t, err)
	connect := func(server *tls.Config) error {
		listener, err := tls.Listen("tcp", "127.0.0.1:0", server)
		must(t, err)
		defer listener.Close()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if conn, err := listener.Accept(); err == nil {
				_, _ = io.Copy(io.Discard, conn)
				_ = conn.Close()
			}
		}()
		conn, err := net.Dial("tcp", listener.Addr().String())
		must(t, err)
		_, _, err = agents.Clone().ClientHandshake(t.Context(), "127.0.0.1", conn)
		_ = conn.Close() // closed already where the handshake failed
		<-ended
		return err
	}
	must(t, connect(first))
	second := renew()
	must(t, connect(second))
	if err := connect(first); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("the former certificate: %v", err)
	}
	must(t, os.Remove(file))
	if err := connect(second); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("without a file: %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
