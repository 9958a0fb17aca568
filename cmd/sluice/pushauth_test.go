package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The commands that are printed are for the port as it is.
func TestBannerKnowsTLSAndPasswords(t *testing.T) {
	certificates := started(t, t.TempDir()).cfg.store.Dir
	passwords := filepath.Join(t.TempDir(), "passwords")
	const line = "warehouse:$2a$08$L9/IE8JH1wnhQlWEQBwzwOJBcOKgRLoEcnFDxQH52qTb3dJgCvlTW\n"
	if err := os.WriteFile(passwords, []byte(line), 0o600); err != nil {
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

// Files that cannot be used, and settings that do not fit together, are told by the names of their flags.
func TestPushFaultsNameTheirFlags(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for _, c := range []struct {
		flags []string
		says  string
	}{
		{[]string{"--push-basic-auth-file", missing}, "--push-basic-auth-file: open " + missing},
		{[]string{"--push-basic-auth-file", "pushauth_test.go"}, "--push-basic-auth-file pushauth_test.go: line 1 is not name:hash"},
		{[]string{"--push-tls-cert-file", missing, "--push-tls-key-file", missing}, "--push-tls-cert-file: open " + missing},
		{[]string{"--push-tls-key-file", missing}, "--push-tls-cert-file: give --push-tls-key-file with it"},
		{[]string{"--push-tls-client-ca-file", missing}, "--push-tls-client-ca-file"},
		{[]string{"--push-tls-client-auth", "require"}, "--push-tls-client-auth"},
		{[]string{"--push-tls-client-auth", "maybe"}, `--push-tls-client-auth: "maybe", want request or require`},
		{[]string{"--push-auth", "token"}, "--push-auth: token is for a cluster"},
		{[]string{"--push-auth", "basic"}, `--push-auth: "basic", want none or token`},
	} {
		code, _, errs := called(t, onFreePorts(t.TempDir(), c.flags...)...)
		if code == exitOK || !strings.Contains(errs, c.says) {
			t.Errorf("%q: %d %s, want %s", c.flags, code, errs, c.says)
		}
	}
}
