package main

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/sluice-metrics/sluice/receiver/push/body"
	"github.com/sluice-metrics/sluice/receiver/scrape"
	"github.com/sluice-metrics/sluice/replica/agent"
)

// Each fault of an agent's settings is named, and so are those of a server's settings about agents.
func TestAgentSettings(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"no server":   {[]string{"agent"}, []string{"server is empty; must be the host:port of a server's agents-address"}},
		"no port":     {[]string{"agent", "--server", "sluice"}, []string{"--server is \"sluice\"; must be host:port"}},
		"an argument": {[]string{"agent", "node-1", "--server", "a:1"}, []string{"unexpected argument \"node-1\""}},
		"several": {[]string{"agent", "--server", "a:1", "--insecure", "--server-ca-file", "ca.crt", "--max-held", "1MiB", "--statsd-udp", "x"},
			[]string{"--insecure", "--max-held", "--statsd-udp"}},
		"a token without TLS":    {[]string{"agent", "--server", "a:1", "--insecure", "--token-file", "token", "--max-held", "1MiB"}, []string{"could read the token of --token-file"}},
		"a CA that is not there": {[]string{"agent", "--server", "a:1", "--server-ca-file", "none.crt"}, []string{"none.crt"}},
		"a server without TLS": {[]string{"serve", "--standalone", "--agents-address", ":9097"},
			[]string{"--agents-tls-cert-file", "--agents-insecure must be true"}},
		"several servers, of which one has no port": {[]string{"agent", "--server", "a:1,b"}, []string{"--server is \"b\"; must be host:port"}},
		"a certificate that is not there": {[]string{"serve", "--standalone", "--data-dir", t.TempDir(), "--statsd-udp", "", "--statsd-tcp", "", "--http-address", "127.0.0.1:0",
			"--api-address", "127.0.0.1:0", "--ops-address", "127.0.0.1:0", "--agents-address", "127.0.0.1:0", "--agents-tls-cert-file", "none.crt", "--agents-tls-key-file", "none.key"},
			[]string{"--agents-tls-cert-file cannot be read: open none.crt"}},
		"a taint without a cluster": {[]string{"serve", "--standalone", "--agents-address", ":9097", "--agents-insecure", "--agents-startup-taint"},
			[]string{"--agents-startup-taint is true without a cluster or agents-address"}},
		"no accounts": {[]string{"serve", "--kubeconfig", "none", "--agents-address", ":9097", "--agents-insecure"},
			[]string{"--agents-accounts is empty"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := called(t, c.args...)
			if code == command.ExitOK || out != "" {
				t.Errorf("exit code %d, %q", code, out)
			}
			for _, want := range c.want {
				if !strings.Contains(errs, want) {
					t.Errorf("%q lacks %q", errs, want)
				}
			}
		})
	}
}

// What clients can have an agent keep fits the chart's memory limit, beside the 48 MiB of an idle one: its samples, the bodies of all
// connections, and what waits in the kernel, of which cgroup v2 counts it. One address has a quarter of these. So do the pages of its
// pods, of which 110 are on a node, and a day of usage of 250 containers, at 98 KiB each.
func TestAgentFitsTheChart(t *testing.T) {
	values, err := os.ReadFile("../../charts/sluice/values.yaml")
	must(t, err)
	found := regexp.MustCompile(`(?s)\nagent:.*?limits:\n      memory: (\d+)Mi`).FindSubmatch(values)
	if found == nil {
		t.Fatal("the chart has no limit")
	}
	limit, _ := strconv.Atoi(string(found[1]))
	c := defaultAgent()
	c.statsd.unix = "statsd-stream.sock" // agent.sockets
	c.completeAgent()
	most := 48<<20 + c.link.MaxBytes + int(c.push.MaxBufferedBytes) + c.push.MaxConnections*(body.FreeBytes+body.FreeOfShare)
	most += 2 * c.push.ReceiveBuffer * c.push.MaxConnections
	if 3*c.push.MaxBufferedBytes < 4*int64(c.push.MaxBodyBytes+c.push.MaxDecompressed()) {
		t.Error("decompressed bodies have no share of the budget: one sender's leave nothing to others")
	}
	const pods, usage = 110, 250 * 98 << 10
	most += 2*agentPages.Together + max(agentPages.AtOnce, pods)*scrape.BesideRoom + agent.MaxUnsent + usage
	for _, l := range c.receiver.Listeners {
		switch l.Network {
		case "tcp":
			most += 2 * l.ReadBuffer * c.receiver.MaxConnections
		case "unix":
			most += (c.receiver.MaxPacket + 8<<10) * c.receiver.MaxConnections
		}
		if l.Network == "tcp" && l.ReadBuffer == 0 || c.push.ReceiveBuffer == 0 {
			t.Error("the kernel keeps megabytes of each connection")
		}
	}
	if most > limit<<20 || 4*c.push.MaxConnsPerIP > c.push.MaxConnections {
		t.Errorf("an agent keeps %d MiB, of %d", most>>20, limit)
	}
}
