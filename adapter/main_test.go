package adapter

import (
	"os"
	"testing"
	"time"
)

// TestMain raises the times that real sockets would be judged by.
func TestMain(m *testing.M) {
	decisionTTL, drainTimeout, handshakeTimeout = time.Hour, time.Minute, time.Minute
	os.Exit(m.Run())
}
