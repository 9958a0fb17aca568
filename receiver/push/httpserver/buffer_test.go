package httpserver

import (
	"context"
	"log/slog"
	"net"
	"syscall"
	"testing"

	"github.com/sluice-metrics/sluice/receiver/ledger"
)

// What a client sends faster than it is read waits in a buffer of bounded size.
func TestReceiveBuffer(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Address, cfg.ReceiveBuffer = "127.0.0.1:0", 16<<10
	s, err := New(cfg, Parts{Ledger: ledger.New(), Logger: slog.New(slog.DiscardHandler)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	defer func() { _ = s.Run(ended, nil) }()
	raw, err := s.listener.Listener.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) {
		if got, err := syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF); err != nil || got > 2*cfg.ReceiveBuffer {
			t.Errorf("the buffer has %d bytes (%v); must have %d at most", got, err, 2*cfg.ReceiveBuffer)
		}
	})
}
