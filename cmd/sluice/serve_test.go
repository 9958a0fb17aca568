package main

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/cmd/sluice/client"
	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/sluice-metrics/sluice/cmd/sluice/command/commandtest"
	"github.com/sluice-metrics/sluice/store"
	"github.com/spf13/pflag"
)

// This binary is also sluice: for the store, which tries databases in a process of its own, and for
// commands that are copied from the banner.
func TestMain(m *testing.M) {
	if code, isChild := store.ChildMain(); isChild {
		os.Exit(code)
	}
	client.ConnectTimeout = time.Hour
	if os.Getenv(asSluice) != "" && !slices.ContainsFunc(os.Args, func(arg string) bool { return strings.HasPrefix(arg, "-test.") }) {
		main()
	}
	os.Exit(m.Run())
}

// onFreePorts are flags with which any number of servers run beside each other.
func onFreePorts(dir string, more ...string) []string {
	return append([]string{"serve", "--standalone", "--data-dir", dir, "--statsd-udp", "127.0.0.1:0", "--statsd-tcp", "127.0.0.1:0",
		"--http-address", "127.0.0.1:0", "--api-address", "127.0.0.1:0", "--ops-address", "127.0.0.1:0", "--log-level", "error"}, more...)
}

func TestServeNamesEveryFault(t *testing.T) {
	code, out, errs := called(t, "serve", "--bogus", "x", "--max-series", "-5", "--windows", "10x", "--statsd-udp", "nowhere",
		"--http-max-body=lots", "-z", "--external-ttl", "never", "--log-format", "xml", "--ops-address", "8080", "extra", "--api-address")
	if code != command.ExitUsage || out != "" {
		t.Errorf("exit code %d and output %q, want %d and none", code, out, command.ExitUsage)
	}
	commandtest.WantLines(t, errs,
		"unknown flag --bogus", "unknown flag -z", "--windows", "--http-max-body", "--external-ttl", "--api-address is without a value",
		`"extra"`, "no cluster: ", "nowhere", "--max-series is -5; must be from 1 to", "--log-format", "ops-address")
}

func TestBrokenCertificateIsNamed(t *testing.T) {
	junk := filepath.Join(t.TempDir(), "tls.crt")
	must(t, os.WriteFile(junk, []byte("junk"), 0o600))
	for _, file := range []string{junk, filepath.Join(t.TempDir(), "missing.crt")} {
		code, _, errs := called(t, onFreePorts(t.TempDir(), "--api-cert-file", file, "--api-key-file", file)...)
		if code != command.ExitUsage || !strings.Contains(errs, "--api-cert-file "+file) || !strings.Contains(errs, "PEM") {
			t.Errorf("exit code %d: %s", code, errs)
		}
	}
}

func TestServeWantsAClusterOrNone(t *testing.T) {
	code, _, errs := called(t, "serve")
	if code != command.ExitUsage {
		t.Errorf("exit code %d, want %d", code, command.ExitUsage)
	}
	commandtest.WantLines(t, errs, "must have --kubeconfig, or --standalone")
	code, _, errs = called(t, "serve", "--standalone", "--kubeconfig", "x", "--trust=none", "--trusted-forwarders=10.0.0.0/40,a/b,foo",
		"--external-writers=everybody", "--object-kinds=pods", "--pod-metrics=-1", "--ignore=*", "--statsd-about=me")
	if code != command.ExitUsage {
		t.Errorf("exit code %d, want %d", code, command.ExitUsage)
	}
	commandtest.WantLines(t, errs, "--kubeconfig", "--trust", "--trusted-forwarders has \"10.0.0.0/40\"", "--trusted-forwarders has \"foo\"", "--external-writers has \"everybody\"",
		"--object-kinds has \"pods\"", "--pod-metrics", "--ignore", "--statsd-about")
}

func TestConfigFileNamesEveryFault(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	text := "standalone: true\nmax-serie: 5\nmax-series: many\nwindows: [10s, {a: b}]\nlog-format: text\nlog-format: json\nhelp: true\nexternal-ttl: 0s\n"
	must(t, os.WriteFile(file, []byte(text), 0o644))
	code, _, errs := called(t, "serve", "--config", file)
	if code != command.ExitUsage {
		t.Errorf("exit code %d, want %d", code, command.ExitUsage)
	}
	commandtest.WantLines(t, errs, file+`:2: unknown setting "max-serie"`, file+":3: max-series", file+":4: windows",
		file+":6: log-format is already set in line 5", file+`:7: unknown setting "help"`, file+":8: external-ttl is 0s; must be at least")
}

func TestConfigFileThatIsNone(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ text, want string }{
		"broken":   {"windows: [10s", "broken:1: did not"},
		"list":     {"- a\n- b\n", "a map of settings"},
		"two":      {"max-series: 5\n---\nmax-series: 6\n", "several YAML documents"},
		"number":   {"5", "a map of settings"},
		"null":     {"# nothing\n", ""},
		"nullword": {"~\n", ""},
	} {
		file := filepath.Join(dir, name)
		must(t, os.WriteFile(file, []byte(c.text), 0o644))
		_, faults := readConfigFile(file, newServe().Flags())
		if (c.want == "") != (len(faults) == 0) || (c.want != "" && !strings.Contains(faults[0].Error(), c.want)) {
			t.Errorf("%s: faults %v, want one with %q", name, faults, c.want)
		}
	}
	if _, faults := readConfigFile(filepath.Join(dir, "missing"), newServe().Flags()); len(faults) != 1 {
		t.Errorf("faults %v of a missing file, want one", faults)
	}
}

// A setting of the file that cannot be read is one fault: it is not missing besides, and not judged
// at its default.
func TestFaultsInTheFileAreToldOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	for text, want := range map[string]string{
		"standalone: yes\n":                          `:1: standalone is "yes"; must be true or false`,
		"standalone: true\nwindows: [10s\n":          ":1: did not find expected ',' or ']'",
		"standalone: true\nmax-series: many\n":       `:2: max-series is "many"; must be a whole number`,
		"standalone: true\nmax-series: 1.5\n":        `:2: max-series is "1.5"; must be a whole number`,
		"max-series: 5\nwindows:\n\t- 10s\n":         ":3: the line has a tab",
		"\tmax-series: 5\n":                          ":1: the line has a tab",
		"# owner:\tus\nwindows:\n\t- 10s\n":          ":3: the line has a tab",
		"standalone: true\nhttp-address: \"9091\"\n": `:2: http-address is "9091"; must be host:port, as in 127.0.0.1:9091`,
	} {
		must(t, os.WriteFile(file, []byte(text), 0o644))
		_, _, errs := called(t, "serve", "--config", file)
		commandtest.WantLines(t, errs, "sluice serve: "+file+want)
	}
}

// Every fault that a stage finds names the flag, in one tone.
func TestFaultsOfStagesNameFlags(t *testing.T) {
	args := map[string]string{
		"--max-series": "-1", "--max-bytes": "1", "--external-ttl": "0s", "--object-ttl": "0s", "--windows": "7s,10s",
		"--statsd-udp-sockets": "900", "--statsd-max-connections": "0", "--statsd-max-connections-per-address": "0", "--statsd-idle-timeout": "-1s", "--statsd-read-buffer": "2GiB",
		"--http-max-body": "0", "--http-max-connections": "0", "--http-max-connections-per-address": "-1", "--http-max-decompressed-body": "-1", "--http-address": "9091", "--api-address": "6443", "--ops-address": ":x",
		"--api-discovery-limit": "0", "--api-max-in-flight": "0", "--api-cert-file": "x", "--api-custom-metrics": "false", "--api-unregistered": "metrics.k8s.io",
		"--default-namespace": "a/b", "--flush-interval": "1h", "--sync-interval": "1ms", "--min-free-disk": "1",
		"--log-level": "loud", "--dialect": "foo", "--log-format": "xml", "--statsd-udp": "8125", "--statsd-tcp": ":",
		"--statsd-unix": strings.Repeat("x", 200), "--statsd-unixgram": strings.Repeat("x", 200), "--data-dir": "",
	}
	line, want := []string{"serve", "--standalone", "--api-external-metrics=false"}, []string{}
	for flag, value := range args {
		line, want = append(line, flag+"="+value), append(want, "sluice serve: "+flag)
	}
	_, _, errs := called(t, line...)
	commandtest.WantLines(t, errs, want...)
	for _, field := range []string{"address \"", "Listeners", "maxB", "MaxB", "Interval", "Bytes"} {
		if strings.Contains(errs, field) {
			t.Errorf("%q is among the faults:\n%s", field, errs)
		}
	}
}

// A body that is allowed fits into what bodies may take together.
func TestLargeBodiesAreAllowed(t *testing.T) {
	t.Parallel()
	p := started(t, t.TempDir(), "--http-max-body", "1GiB")
	if p.cfg.push.MaxBufferedBytes < 2<<30 {
		t.Errorf("%d bytes for all bodies: want room for one of 1 GiB and what it decompresses to", p.cfg.push.MaxBufferedBytes)
	}
}

// Defaults come before the file, and the file before flags.
func TestFlagsGoBeforeTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	must(t, os.WriteFile(file, []byte("max-series: 7\nwindows: [5s, 10s]\nhttp-max-body: 1MiB\n"), 0o644))
	flags := newServe().Flags()
	if _, faults := command.ReadArguments(flags, []string{"--max-series", "9"}); len(faults) > 0 {
		t.Fatal(faults)
	}
	if _, faults := readConfigFile(file, flags); len(faults) > 0 {
		t.Fatal(faults)
	}
	for name, want := range map[string]string{"max-series": "9", "windows": "5s,10s", "http-max-body": "1MiB", "external-ttl": "24h0m0s"} {
		if got := flags.Lookup(name).Value.String(); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

func TestShortLifetimesAreWarnedOf(t *testing.T) {
	cfg := defaultConfig()
	if w := cfg.warnings(); len(w) != 0 {
		t.Errorf("warnings %q by default, want none", w)
	}
	cfg.table.ObjectTTL = cfg.table.ObjectTTL / 100
	if w := cfg.warnings(); len(w) != 1 || !strings.HasPrefix(w[0], "object-ttl is 36s") {
		t.Errorf("warnings %q, want one of object-ttl", w)
	}
}

// Without the kind, a namespace inherits what the former one of its name pushed.
func TestUnwatchedNamespacesAreWarnedOf(t *testing.T) {
	for _, c := range []struct {
		standalone bool
		kinds      []string
		warned     bool
	}{{false, []string{"services", "namespaces"}, false}, {false, []string{"daemonsets.apps"}, true}, {true, nil, false}} {
		cfg := defaultConfig()
		cfg.standalone, cfg.cluster.ObjectKinds = c.standalone, c.kinds
		w := cfg.warnings()
		if warned := len(w) == 1 && strings.HasPrefix(w[0], "object-kinds lacks namespaces"); warned != c.warned || len(w) > 1 {
			t.Errorf("standalone %v with %q: warnings %q", c.standalone, c.kinds, w)
		}
	}
}

// A NATS without TLS or credentials may be right, as in a sidecar, and rarely is.
func TestUnprotectedNATSIsWarnedOf(t *testing.T) {
	const plain, anonymous = "nats-url is without TLS", "nats-url is without a credential"
	for _, c := range []struct {
		url, creds, ca string
		warned         []string
	}{
		{"", "", "", nil},
		{"nats://a:4222", "", "", []string{plain, anonymous}},
		{"tls://a:4222", "", "", []string{anonymous}},
		{"nats://a:4222,nats://b:4222", "creds", "", []string{plain}},
		{"tls://a:4222,nats://b:4222", "creds", "", nil}, // one has TLS for all
		{"tls://a:4222, tls://b:4222", "creds", "", nil},
		{"nats://a:4222", "creds", "ca.crt", nil}, // with authorities, the connection has TLS
		{"tls://user:secret@a:4222", "", "", nil},
	} {
		cfg := defaultConfig()
		cfg.natsbus.URL, cfg.natsbus.CredsFile, cfg.natsbus.URLCAFile = c.url, c.creds, c.ca
		if w := cfg.warnings(); !slices.EqualFunc(w, c.warned, strings.HasPrefix) {
			t.Errorf("%q, credentials %q, authorities %q: warnings %q, want %q", c.url, c.creds, c.ca, w, c.warned)
		}
	}
}

// A fault that stops a start at run time is reported in one line, and nothing is left running or
// locked. TestEveryBusyPortIsNamed has the other ports.
func TestStartFaults(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	port := taken.Addr().String()
	socket := filepath.Join(t.TempDir(), "socket")
	takenUnix, err := net.Listen("unix", socket)
	must(t, err)
	defer takenUnix.Close()
	running := started(t, t.TempDir())
	const inUse = " is in use (is another sluice running?)"
	foreign, file := t.TempDir(), filepath.Join(t.TempDir(), "file")
	for _, path := range []string{filepath.Join(foreign, "thesis.tex"), file} {
		must(t, os.WriteFile(path, nil, 0o644))
	}
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"unixgram":        {onFreePorts(t.TempDir(), "--statsd-unixgram", socket), []string{"--statsd-unixgram " + socket + inUse}},
		"unix":            {onFreePorts(t.TempDir(), "--statsd-unix", socket), []string{"--statsd-unix " + socket + inUse}},
		"agents port":     {onFreePorts(t.TempDir(), "--agents-address", port, "--agents-insecure"), []string{"--agents-address " + port + inUse}},
		"replicas' port":  {onFreePorts(t.TempDir(), "--replica-peers", "a:6222", "--replica-listen", port, "--replica-insecure"), []string{"--replica-listen " + port + inUse}},
		"foreign address": {onFreePorts(t.TempDir(), "--http-address", "192.0.2.1:0"), []string{"--http-address 192.0.2.1:0 is no address of this machine"}},
		"foreign folder":  {onFreePorts(foreign), []string{"--data-dir " + foreign, "thesis.tex", "empty"}},
		"folder is file":  {onFreePorts(file), []string{"--data-dir " + file, "not a directory"}},
		"no such folder":  {onFreePorts("/proc/sluice"), []string{"--data-dir /proc/sluice: cannot create the data folder: "}},
		"folder first":    {onFreePorts(running.cfg.store.Dir, "--ops-address", port), []string{"--data-dir " + running.cfg.store.Dir + ": in use by process"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := called(t, c.args...)
			if code != command.ExitFailed || out != "" {
				t.Errorf("exit code %d and output %q, want %d and none", code, out, command.ExitFailed)
			}
			lines := strings.Split(strings.TrimSpace(errs), "\n")
			last := lines[len(lines)-1]
			if !strings.HasPrefix(last, "sluice serve: ") || strings.Count(errs, "sluice serve: ") != 1 {
				t.Errorf("want one line of why it does not start:\n%s", errs)
			}
			for _, want := range c.want {
				if !strings.Contains(last, want) {
					t.Errorf("%q does not say %q", last, want)
				}
			}
		})
	}
}

// All ports in use are named at once, each with its setting.
func TestEveryBusyPortIsNamed(t *testing.T) {
	args, want := onFreePorts(t.TempDir()), []string{}
	for _, flag := range []string{"--statsd-tcp", "--http-address", "--api-address", "--ops-address"} {
		taken, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		defer taken.Close()
		args = append(args, flag, taken.Addr().String())
		want = append(want, flag+" "+taken.Addr().String()+" is in use")
	}
	taken, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	args = append(args, "--statsd-udp", taken.LocalAddr().String())
	want = append(want, "--statsd-udp "+taken.LocalAddr().String()+" is in use")
	code, _, errs := called(t, args...)
	if code != command.ExitFailed || strings.Count(errs, "is in use") != len(want) {
		t.Errorf("exit code %d, want %d and %d ports:\n%s", code, command.ExitFailed, len(want), errs)
	}
	for _, want := range want {
		wantIn(t, errs, want)
	}
}

// A data folder whose start failed is free again.
func TestFailedStartLetsGo(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	dir := t.TempDir()
	if code, _, _ := called(t, onFreePorts(dir, "--api-address", taken.Addr().String())...); code != command.ExitFailed {
		t.Fatalf("exit code %d, want %d", code, command.ExitFailed)
	}
	_ = taken.Close()
	p := started(t, dir)
	if ok, detail := p.store.Detail(); !ok || strings.Contains(detail, "empty") {
		t.Errorf("the store says %q: want it to go on with what is there", detail)
	}
}

// After the store was read, one line says what came back.
func TestStartSaysWhatWasRestored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	t.Run("first", func(t *testing.T) {
		p := started(t, dir)
		if code, _, errs := called(t, "push", "--http", "http://"+p.push.Addr().String(), "--gauge", "depth", "5", "--sync"); code != command.ExitOK {
			t.Fatal(errs)
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	cfg := parsed(t, dir)
	var log strings.Builder
	p, err := wire(ctx, cfg, newLogger(&log, logConfig{format: "text"}))
	cancel()
	must(t, err)
	if err := p.run(ctx); err != nil {
		t.Error(err)
	}
	if want := "msg=restored series=1 took="; strings.Count(log.String(), want) != 1 {
		t.Errorf("want one line with %q in\n%s", want, log.String())
	}
}

// parsed is the configuration of a server on free ports that waits for an hour where others give up.
func parsed(t *testing.T, dir string, more ...string) *serverConfig {
	t.Helper()
	cfg, flags := defaultConfig(), pflag.NewFlagSet("serve", pflag.ContinueOnError)
	cfg.bind(flags)
	if _, faults := command.ReadArguments(flags, onFreePorts(dir, more...)[1:]); len(faults) > 0 {
		t.Fatal(faults)
	}
	cfg.complete()
	for _, limit := range []*time.Duration{
		&cfg.push.ReadTimeout, &cfg.push.WriteTimeout, &cfg.push.SyncTimeout, &cfg.push.PendingTimeout,
		&cfg.store.ProbeTimeout, &cfg.store.StopTimeout, &cfg.api.RequestTimeout,
	} {
		*limit = time.Hour
	}
	must(t, cfg.validate())
	return cfg
}

// started wires a whole standalone server and runs it until the test ends.
func started(t *testing.T, dir string, more ...string) *dataPath {
	t.Helper()
	return startedWith(t, dir, nil, more...)
}

// startedWith logs elsewhere.
func startedWith(t *testing.T, dir string, log *slog.Logger, more ...string) *dataPath {
	t.Helper()
	cfg := parsed(t, dir, more...)
	if log == nil {
		log = newLogger(os.Stderr, cfg.log)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p, err := wire(ctx, cfg, log)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- p.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return p
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// What is not received any more is not answered as if it had not been sent.
func TestQueriesEndWithReceiving(t *testing.T) {
	cfg := parsed(t, t.TempDir())
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	p, err := wire(ctx, cfg, newLogger(os.Stderr, cfg.log))
	must(t, err)
	done := make(chan error, 1)
	go func() { done <- p.run(ctx) }()
	if answers, why := p.answers(); !answers {
		t.Error(why)
	}
	stop()
	must(t, <-done)
	if answers, why := p.answers(); answers || why != "Sluice is stopping" {
		t.Errorf("queries are answered though nothing is received: %v %s", answers, why)
	}
}
