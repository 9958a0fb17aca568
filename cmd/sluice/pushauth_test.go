package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/sluice-metrics/sluice/internal/mutualtls/testauthority"
	"github.com/sluice-metrics/sluice/internal/ratelog/logtest"
)

const ofWarehouse = "warehouse:$2a$08$L9/IE8JH1wnhQlWEQBwzwOJBcOKgRLoEcnFDxQH52qTb3dJgCvlTW\n"

// The commands that are printed are for the port as it is.
func TestBannerKnowsTLSAndPasswords(t *testing.T) {
	t.Parallel()
	cert, key, _ := testauthority.New(t).Sign(t, t.TempDir(), testauthority.Leaf{})
	p := started(t, t.TempDir(), "--push-basic-auth-file", fileOf(t, ofWarehouse), "--push-tls-cert-file", cert, "--push-tls-key-file", key)
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
	t.Parallel()
	dir := t.TempDir()
	passwords := filepath.Join(dir, "passwords")
	cert, key, _ := testauthority.New(t).Sign(t, dir, testauthority.Leaf{})
	must(t, os.WriteFile(passwords, []byte(ofWarehouse), 0o600))
	var log logtest.Buffer
	startedWith(t, filepath.Join(dir, "data"), slog.New(slog.NewTextHandler(&log, nil)),
		"--push-basic-auth-file", passwords, "--push-tls-cert-file", cert, "--push-tls-key-file", key)
	for _, file := range []string{passwords, cert} {
		must(t, os.WriteFile(file, []byte("nonsense\n"), 0o600))
	}
	for _, want := range []string{"--push-basic-auth-file " + passwords, "--push-tls-cert-file " + cert} { // they are looked at every 5 s
		eventually(t, func() bool { return strings.Contains(log.String(), want) },
			func() string { return fmt.Sprintf("the log says %s, want %s in it", log.String(), want) })
	}
}
