package httpserver

import (
	"bytes"
	"net"
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/internal/config"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/valyala/fasthttp"
)

// checkOrigin rejects requests that a web page makes the browser on this machine send. Without it,
// any page that somebody opens could push, read and delete. It checks only requests that come from
// this machine without a credential.
//
// A page cannot set Sec-Fetch-Site and Origin (Fetch Metadata,
// https://www.w3.org/TR/fetch-metadata/). With DNS rebinding, where a page's own name resolves to
// 127.0.0.1, both are as they should be, but Host has that name.
func (x *Request) checkOrigin() *Fault {
	if remote := x.conn().Remote; !remote.IsLoopback() {
		return nil
	}
	header := &x.HTTP.Request.Header
	host, origin := x.HTTP.URI().Host(), header.Peek(fasthttp.HeaderOrigin) // an absolute target has a host, too
	other := len(origin) > 0 && !isOriginOf(origin, host)
	switch site := string(header.Peek("Sec-Fetch-Site")); {
	case site == "cross-site", site != "same-origin" && site != "none" && other:
		f := Rejected(metric.Identity, "a web page of another origin must not call this port (Sec-Fetch-Site %q, Origin %q): call it from outside of a browser, or with a credential", site, Clip(origin))
		f.Reason = "origin"
		return f
	case x.server.checksHosts && !x.server.cfg.takesHost(string(host)):
		f := Rejected(metric.Identity, "Host is %q; must be localhost, an IP address or one of push-allowed-hosts, unless a credential is shown: a web page could reach this port by DNS rebinding", Clip(host))
		f.Reason = "host"
		return f
	}
	return nil
}

// checksHosts reports whether requests from this machine must have a known Host. In a cluster they
// need not: a sidecar forwards, from 127.0.0.1, requests that were sent to the name of the Service.
func checksHosts(listener net.Addr, inCluster bool) bool {
	tcp, ok := listener.(*net.TCPAddr)
	return !inCluster || ok && tcp.IP.IsLoopback()
}

// isOriginOf reports whether an origin, scheme://host[:port], is that of a host[:port].
func isOriginOf(origin, host []byte) bool {
	_, authority, ok := bytes.Cut(origin, []byte("://"))
	return ok && bytes.EqualFold(authority, host)
}

// takesHost reports whether a host is this machine, or one of AllowedHosts.
func (c *Config) takesHost(host string) bool {
	name := config.HostName(host)
	return config.IsThisMachine(host) || slices.ContainsFunc(c.AllowedHosts, func(allowed string) bool { return strings.EqualFold(allowed, name) })
}
