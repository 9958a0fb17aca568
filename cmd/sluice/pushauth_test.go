package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/cmd/sluice/command"
)

const ofWarehouse = "warehouse:$2a$08$L9/IE8JH1wnhQlWEQBwzwOJBcOKgRLoEcnFDxQH52qTb3dJgCvlTW\n"

// The commands that are printed are for the port as it is.
func TestBannerKnowsTLSAndPasswords(t *testing.T) {
	certificates := started(t, t.TempDir()).cfg.store.Dir
	passwords := filepath.Join(t.TempDir(), "passwords")
	if err := os.WriteFile(passwords, []byte(ofWarehouse), 0o600); err != nil {
		t.Fatal(err)
	}
	p := started(t, t.TempDir(), "--push-basic-auth-file", passwords,
		"--push-tls-cert-file", filepath.Join(certificates, "tls.crt"), "--push-tls-key-file", filepath.Join(certificates, "tls.key"))
	for _, want := range []string{"HTTP         https://127.0.0.1:", "curl --insecure --user NAME -X PUT -d 42 https://127.0.0.1:"} {
		if got := p.banner(); !strings.Contains(got, want) {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// Files that cannot be used, and settings that do not fit together, are told by the names of their
// flags.
func TestPushFaultsNameTheirFlags(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for _, c := range []struct {
		flags []string
		says  string
	}{
		{[]string{"--push-basic-auth-file", missing}, "--push-basic-auth-file cannot be read: open " + missing},
		{[]string{"--push-basic-auth-file", "pushauth_test.go"}, "--push-basic-auth-file pushauth_test.go: line 1 is not name:hash"},
		{[]string{"--push-tls-cert-file", missing, "--push-tls-key-file", missing}, "--push-tls-cert-file cannot be read: open " + missing},
		{[]string{"--push-tls-key-file", missing}, "--push-tls-key-file is set without --push-tls-cert-file"},
		{[]string{"--push-tls-client-ca-file", missing}, "--push-tls-client-ca-file"},
		{[]string{"--push-tls-client-auth", "require"}, "--push-tls-client-auth"},
		{[]string{"--push-tls-client-auth", "maybe"}, `--push-tls-client-auth is "maybe"; must be request or require`},
		{[]string{"--push-auth", "token"}, "--push-auth is token, which needs a cluster"},
		{[]string{"--push-auth", "basic"}, `--push-auth is "basic"; must be none or token`},
	} {
		code, _, errs := called(t, onFreePorts(t.TempDir(), c.flags...)...)
		if code != command.ExitUsage || !strings.Contains(errs, c.says) {
			t.Errorf("%q: %d %s, want %s", c.flags, code, errs, c.says)
		}
	}
}

// A fault of a file that is read again names the flag, as at the start.
func TestFilesReadAgainNameTheirFlags(t *testing.T) {
	dir := t.TempDir()
	passwords, cert, key, said := filepath.Join(dir, "passwords"), filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), filepath.Join(dir, "log")
	log, err := os.Create(said)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	made := started(t, filepath.Join(dir, "data")) // and with it a certificate
	for from, to := range map[string]string{"tls.crt": cert, "tls.key": key} {
		copied(t, filepath.Join(made.cfg.store.Dir, from), to)
	}
	if err := os.WriteFile(passwords, []byte(ofWarehouse), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := parsed(t, filepath.Join(dir, "other"), "--push-basic-auth-file", passwords, "--push-tls-cert-file", cert, "--push-tls-key-file", key, "--log-level", "warn")
	ctx, cancel := context.WithCancel(context.Background())
	p, err := wire(ctx, cfg, newLogger(log, cfg.log))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- p.run(ctx) }()
	for _, file := range []string{passwords, cert} {
		if err := os.WriteFile(file, []byte("nonsense\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	wants, text := []string{"--push-basic-auth-file " + passwords, "--push-tls-cert-file " + cert}, ""
	for range 600 { // they are looked at every 5 s
		content, _ := os.ReadFile(said)
		if text = string(content); strings.Contains(text, "passwords that were") && strings.Contains(text, "certificate that was") {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("the log says %s, want %s in it", text, want)
		}
	}
}

func copied(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
