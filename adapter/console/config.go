package console

import (
	"net"
	"net/netip"

	"github.com/sluice-metrics/sluice/internal/config"
)

// Config of the console.
type Config struct {
	// Address is host:port to listen on; empty: there is no console. On a loopback address, anyone
	// who can connect can read. On another one, each request shows a token, and the console uses TLS.
	Address string
	// Standalone: there is no cluster to review tokens.
	Standalone bool
}

// exampleAddress has the console's usual port.
const exampleAddress = "127.0.0.1:9096"

// Enabled reports whether there is a console.
func (c Config) Enabled() bool { return c.Address != "" }

// Validate returns all faults at once.
func (c Config) Validate() error {
	var faults config.Faults
	if !c.Enabled() {
		return nil
	}
	faults.AddUnlessHostPort("Address", c.Address, exampleAddress)
	if c.Standalone && !c.Loopback() && faults.Join() == nil {
		faults.Add("Address", "is %s; must be a loopback address with --standalone, as in %s: no cluster reviews tokens",
			c.Address, exampleAddress)
	}
	return faults.Join()
}

// Loopback reports whether only this machine (in a cluster: this pod) can connect.
func (c Config) Loopback() bool {
	host, _, err := net.SplitHostPort(c.Address)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
