package receiver

import (
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/internal/connlimit/crowd"
)

// The sender learns by the sum that its line was applied.
func TestACrowdKeepsNoneOut(t *testing.T) {
	const most = 128
	for name, says := range map[string]string{"silent": "", "half a line": "a:1|"} {
		t.Run(name, func(t *testing.T) {
			address := crowd.Address(t)
			var f *fixture
			var n atomic.Int64
			crowd.KeepsNoneOut(t, address, most, says, func() (stop func()) {
				config := testConfig(Listener{Network: "tcp", Address: address})
				config.MaxConnections, config.MaxConnectionsPerAddress = most, most
				f = serve(t, config)
				return f.stop
			}, func(conn net.Conn) error {
				name := fmt.Sprint("m", n.Add(1))
				if _, err := io.WriteString(conn, name+":1|c\n"); err != nil {
					return err
				}
				_ = conn.(*net.TCPConn).CloseWrite()
				_, _ = io.Copy(io.Discard, conn) // until the server has read all, or has closed it
				for range 100 {
					if f.recorder.sum(name) == 1 {
						return nil
					}
					time.Sleep(time.Millisecond)
				}
				return fmt.Errorf("%s was not applied", name)
			})
		})
	}
}
