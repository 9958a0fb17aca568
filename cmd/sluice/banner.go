package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-metrics/sluice"
	"github.com/sluice-metrics/sluice/cmd/sluice/client"
)

// banner names the ports, with commands that work as printed in any shell on this machine.
func (p *dataPath) banner() string {
	var b strings.Builder
	api := reachable(p.api.Addr())
	http, curl := p.pushURL()
	fmt.Fprintf(&b, "\nSluice %s runs standalone, on this machine. Data folder: %s\n\n", sluice.Version, p.cfg.store.Dir)
	fmt.Fprintf(&b, "  push   StatsD       %s\n", strings.Join(p.statsdAddresses(), "   "))
	fmt.Fprintf(&b, "         HTTP         %s/v1\n", http)
	fmt.Fprintf(&b, "  read   metrics API  https://%s   (kubeconfig: %s)\n", api, p.kubeconfig)
	fmt.Fprintf(&b, "  watch  operations   http://%s/readyz and /metrics\n", reachable(p.opsAddr))

	if p.console != nil {
		fmt.Fprintf(&b, "         console      http://%s\n", reachable(p.console.Addr()))
	}

	b.WriteString("\nTry it in another terminal. Push:\n\n")
	if udp := p.udpAddress(); udp != "" {
		host, port, _ := net.SplitHostPort(udp)
		fmt.Fprintf(&b, "  bash -c 'echo \"http_requests:1|c\" >/dev/udp/%s/%s'\n", host, port)
		fmt.Fprintf(&b, "  %s push --statsd %s 'http_requests:1|c'\n", binary(), udp)
	}
	fmt.Fprintf(&b, "  %s -X PUT -d 42 %s/v1/namespaces/shop/deployments.apps/web/queue_depth\n", curl, http)

	b.WriteString("\nRead what an autoscaler reads:\n\n")
	requests := client.ExternalAPI + "/namespaces/shop/http_requests:count"
	depth := client.CustomAPI + "/namespaces/shop/deployments.apps/web/queue_depth"
	fmt.Fprintf(&b, "  curl --cacert %s https://%s%s\n", filepath.Join(p.cfg.store.Dir, caName), api, requests)
	fmt.Fprintf(&b, "  kubectl --kubeconfig %s get --raw %s\n", p.kubeconfig, depth)
	fmt.Fprintf(&b, "  %s -n shop external http_requests:count\n\n", p.getCommand())
	return b.String()
}

// getCommand reads from this server, standalone.
func (p *dataPath) getCommand() string { return binary() + " get --kubeconfig " + p.kubeconfig }

// pushURL is the address of HTTP push, and the curl command for it. The certificate's name and the
// users of the password file are not known here.
func (p *dataPath) pushURL() (url, curl string) {
	url, curl = "http://"+reachable(p.push.Addr()), "curl"
	if p.cfg.push.TLSCertFile != "" {
		url, curl = "https://"+reachable(p.push.Addr()), "curl --insecure"
	}
	if p.cfg.push.BasicAuthFile != "" {
		curl += " --user NAME"
	}
	return url, curl
}

func (p *dataPath) statsdAddresses() []string {
	var all []string
	for i, addr := range p.statsd.Addrs() {
		all = append(all, p.cfg.receiver.Listeners[i].Network+" "+reachable(addr))
	}
	return all
}

// udpAddress is the address of StatsD over UDP; empty: it is off.
func (p *dataPath) udpAddress() string {
	for i, addr := range p.statsd.Addrs() {
		if p.cfg.receiver.Listeners[i].Network == "udp" {
			return reachable(addr)
		}
	}
	return ""
}

// binary is the name by which this process was called, for commands to copy.
func binary() string {
	if len(os.Args) > 0 && os.Args[0] != "" {
		return os.Args[0]
	}
	return "sluice"
}
