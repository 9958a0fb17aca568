package main

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/cmd/sluice/client"
	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/sluice-metrics/sluice/internal/mutualtls/testauthority"
)

// Each way to push a value is read back through the metrics API by get, from the object it was
// pushed to.
func TestPushedValuesAreGot(t *testing.T) {
	t.Parallel()
	p := started(t, t.TempDir())
	http := "http://" + p.push.Addr().String()
	for _, c := range []struct {
		push, get []string
		want      string
	}{
		{[]string{"--gauge", "depth", "-4.5", "-n", "shop", "--object", "deployments/web", "-l", "q=a"}, []string{"-n", "shop", "deployments.apps/web", "depth"}, "-4.5"},
		{[]string{"--gauge", "load", "7", "--object", "nodes/n1"}, []string{"nodes/n1", "load"}, "7"},
		{[]string{"--gauge", "quota", "80", "--object", "namespaces/shop"}, []string{"namespaces/shop", "quota"}, "80"},
		{[]string{"--counter", "jobs", "3", "-n", "shop", "--sync"}, []string{"-n", "shop", "external", "jobs:total"}, "3"},
		{[]string{"--counter", "http/requests", "2"}, []string{"external", "http/requests:total"}, "2"},
		{[]string{"--timer", "latency", "32", "-n", "shop", "--ttl", "1h"}, []string{"-n", "shop", "external", "latency:max:1m"}, "32"},
		{[]string{"--timer", "wait", "5", "-n", "shop", "--ttl", "forever"}, []string{"-n", "shop", "external", "wait:max:1m"}, "5"},
		{[]string{"--set", "users", "bob", "-n", "shop"}, []string{"-n", "shop", "external", "users:unique:1m"}, "1"},
	} {
		if code, _, errs := called(t, append([]string{"push", "--http", http}, c.push...)...); code != command.ExitOK {
			t.Errorf("push %v: %s", c.push, errs)
			continue
		}
		code, out, errs := called(t, append([]string{"get", "--kubeconfig", p.kubeconfig}, c.get...)...)
		if fields := strings.Fields(out); code != command.ExitOK || len(fields) != 10 || fields[7] != c.want {
			t.Errorf("get %v: %s%s: want %s", c.get, out, errs, c.want)
		}
	}
}

func TestPushTellsWhatTheServerRefuses(t *testing.T) {
	t.Parallel()
	p := started(t, t.TempDir())
	push := func(args ...string) (int, string) {
		code, _, errs := called(t, append([]string{"push", "--http", "http://" + p.push.Addr().String()}, args...)...)
		return code, errs
	}
	if code, errs := push("--gauge", "q", "1"); code != command.ExitOK {
		t.Fatal(errs)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--gauge", "depth", "many"}, command.ExitUsage, `"many" is not a number`},
		{[]string{"--gauge", "depth", "NaN"}, command.ExitUsage, "NaN is not a value"},
		{[]string{"--gauge", "depth", "1", "-n", "Sh op"}, command.ExitUsage, `"Sh op" is not a namespace`},
		{[]string{"--set", "users", ""}, command.ExitUsage, "(malformed)"},
		{[]string{"--gauge", "depth", "1", "--object", "widgets.example.com/x"}, command.ExitFailed, `no resource "widgets.example.com"`},
		{[]string{"--counter", "q", "1"}, command.ExitFailed, `"q" of "external" is already a gauge; cannot push it as a counter: delete it first, or use another name (kind_conflict)`},
	} {
		code, errs := push(c.args...)
		if code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%q: exit code %d, %q: want %d and %q", c.args, code, errs, c.code, c.want)
		}
	}
}

func fileOf(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// A push shows a name and a password to a port that asks for them, over TLS that it checks.
func TestPushOverTLSWithAPassword(t *testing.T) {
	cert, key, ca := testauthority.New(t).Sign(t, t.TempDir(), testauthority.Leaf{})
	p := started(t, t.TempDir(), "--push-basic-auth-file", fileOf(t, ofWarehouse), "--push-tls-cert-file", cert, "--push-tls-key-file", key)
	address := p.push.Addr().String()
	good, bad := fileOf(t, "warehouse:open sesame\n"), fileOf(t, "warehouse:open\n")
	for name, c := range map[string]struct {
		user  string // of the environment
		flags []string
		code  int
		says  string
	}{
		"file":           {"", []string{"--ca-file", ca, "--user-file", good}, command.ExitOK, "applied 1 to external a"},
		"environment":    {"warehouse:open sesame", []string{"--ca-file", ca}, command.ExitOK, "applied 1"},
		"file first":     {"warehouse:open sesame", []string{"--ca-file", ca, "--user-file", bad}, command.ExitFailed, "name or password is wrong (credentials)"},
		"nobody":         {"", []string{"--ca-file", ca}, command.ExitFailed, "this server asks for a name and a password"},
		"no authority":   {"", []string{"--user-file", good}, command.ExitFailed, "shows a certificate that no authority known here vouches for; must have --ca-file"},
		"any":            {"", []string{"--insecure-skip-tls-verify", "--user-file", good}, command.ExitOK, "applied 1"},
		"no CA file":     {"", []string{"--ca-file", good}, command.ExitFailed, "holds no certificate; must"},
		"no such file":   {"", []string{"--user-file", "/nowhere"}, command.ExitFailed, "--user-file: open /nowhere"},
		"no password":    {"", []string{"--user-file", fileOf(t, "warehouse")}, command.ExitFailed, "must be name:password"},
		"bad variable":   {"warehouse", nil, command.ExitFailed, "$SLUICE_PUSH_USER: must be name:password"},
		"an empty file":  {"", []string{"--token-file", fileOf(t, "\n")}, command.ExitFailed, "must be one line"},
		"two of them":    {"", []string{"--token-file", good, "--user-file", good}, command.ExitUsage, "--token-file and --user-file are set; must be one"},
		"half a pair":    {"", []string{"--cert-file", cert}, command.ExitUsage, "must be both or neither"},
		"no certificate": {"", []string{"--cert-file", good, "--key-file", key}, command.ExitFailed, "--cert-file " + good},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(client.UserVariable, c.user)
			code, out, errs := called(t, append([]string{"push", "--http", "https://" + address, "--counter", "a", "1"}, c.flags...)...)
			if code != c.code || !strings.Contains(out+errs, c.says) {
				t.Errorf("%d %s%s; want %d %s", code, out, errs, c.code, c.says)
			}
		})
	}
	code, _, errs := called(t, "push", "a:1|c", "--token-file", good)
	if code != command.ExitUsage || !strings.Contains(errs, "--token-file is for pushes over HTTP") {
		t.Errorf("a StatsD line with a token: %d %s", code, errs)
	}
}

// A server without authentication says that it doesn't check a token.
func TestAnUncheckedTokenIsTold(t *testing.T) {
	t.Parallel()
	p := started(t, t.TempDir())
	push := append([]string{"push", "--http", "http://" + p.push.Addr().String(), "--gauge", "a", "1"}, "--token-file", fileOf(t, "abc\n"))
	for args, warned := range map[int]bool{len(push): true, len(push) - 2: false} {
		code, _, errs := called(t, push[:args]...)
		if code != command.ExitOK || strings.Contains(errs, "Warning: the credential in Authorization is not checked") != warned {
			t.Errorf("%v: exit code %d, %q", push[:args], code, errs)
		}
	}
}

// A token and a client certificate are shown.
func TestPushShowsTokenAndCertificate(t *testing.T) {
	cert, key, _ := testauthority.New(t).Sign(t, t.TempDir(), testauthority.Leaf{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer abc" || len(r.TLS.PeerCertificates) == 0 {
			t.Errorf("came %v with %d certificates", r.Header, len(r.TLS.PeerCertificates))
		}
		_, _ = w.Write([]byte(`{"applied":1,"refused":0}`))
	}))
	pair, err := tls.LoadX509KeyPair(cert, key)
	must(t, err)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert}
	s.StartTLS()
	defer s.Close()
	t.Setenv(client.UserVariable, "somebody:else") // a token goes before
	code, _, errs := called(t, "push", "--http", s.URL, "--insecure-skip-tls-verify", "--token-file", fileOf(t, "abc\n"), "--cert-file", cert, "--key-file", key, "--gauge", "a", "1")
	if code != command.ExitOK {
		t.Errorf("%d %s", code, errs)
	}
}
