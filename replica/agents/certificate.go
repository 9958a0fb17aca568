package agents

import (
	"crypto/tls"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/internal/ratelog"
)

// certificate is the port's certificate. A handshake reads the files again if they have changed.
type certificate struct {
	cert, key string
	log       *slog.Logger
	faults    ratelog.Limiter

	mu      sync.Mutex
	looked  time.Time
	changed [2]time.Time
	pair    *tls.Certificate
}

// get is a tls.Config.GetCertificate.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pair != nil && time.Since(c.looked) < time.Second {
		return c.pair, nil
	}
	c.looked = time.Now()
	changed := [2]time.Time{modified(c.cert), modified(c.key)}
	if c.pair != nil && changed == c.changed {
		return c.pair, nil
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	switch {
	case err == nil:
		c.pair, c.changed = &pair, changed
	case c.pair == nil:
		return nil, err
	default:
		if suppressed, ok := c.faults.Allow(); ok {
			c.log.Error("cannot reload the certificate of agents-address", "error", err, "suppressed", suppressed)
		}
	}
	return c.pair, nil
}

func modified(file string) time.Time {
	info, err := os.Stat(file)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}
