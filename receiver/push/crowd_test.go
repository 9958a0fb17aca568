package push

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/internal/connlimit/crowd"
)

// Neither silent connections nor idle ones, nor those that never finish a request, keep a client out.
func TestACrowdKeepsNoneOut(t *testing.T) {
	const most = 128
	for name, says := range map[string]string{
		"silent": "", "idle": "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "half a header": "GET / HT",
		"half a body": "PUT /v1/external/m HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n1",
	} {
		t.Run(name, func(t *testing.T) {
			address := crowd.Address(t)
			crowd.KeepsNoneOut(t, address, most, says, func() (stop func()) {
				h := start(t, func(c *Config, _ *Parts) {
					c.Address, c.MaxConnections, c.MaxConnsPerIP = address, most, most
					c.ShutdownTimeout = time.Millisecond // unfinished requests last
				})
				return h.stop
			}, func(conn net.Conn) error {
				write(t, conn, "PUT /v1/external/m HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n1")
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err == nil && res.StatusCode != http.StatusOK {
					text, _ := io.ReadAll(res.Body)
					err = fmt.Errorf("%s: %s", res.Status, text)
				}
				return err
			})
		})
	}
}
