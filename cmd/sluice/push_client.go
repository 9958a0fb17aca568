package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// userVariable holds a name and a password where no file does.
const userVariable = "SLUICE_PUSH_USER"

// credentials are what a push over HTTP shows of itself, and believes of the server. Secrets are in files or in the environment:
// arguments can be seen by everybody on the machine.
type credentials struct {
	tokenFile string
	userFile  string
	certFile  string
	keyFile   string
	caFile    string
	insecure  bool
}

func (c *credentials) bind(flags *pflag.FlagSet) {
	flags.StringVar(&c.tokenFile, "token-file", "", "file with the bearer token to show")
	flags.StringVar(&c.userFile, "user-file", "", "file with name:password to show; empty: $"+userVariable+", if it is set")
	flags.StringVar(&c.certFile, "cert-file", "", "client certificate to show, PEM")
	flags.StringVar(&c.keyFile, "key-file", "", "its key, PEM")
	flags.StringVar(&c.caFile, "ca-file", "", "authorities to believe of an https address, PEM (default: the system's)")
	flags.BoolVar(&c.insecure, "insecure-skip-tls-verify", false, "believe any certificate")
}

// credentialFlags are the names of these flags.
func credentialFlags() (names []string) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(credentials).bind(flags)
	flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

func (c *credentials) validate() error {
	var faults []error
	if c.tokenFile != "" && c.userFile != "" {
		faults = append(faults, errors.New("--token-file and --user-file: want one"))
	}
	if (c.certFile == "") != (c.keyFile == "") {
		faults = append(faults, errors.New("--cert-file and --key-file: want both or neither"))
	}
	return errors.Join(faults...)
}

// authorize sets the header that shows who pushes, if that is known.
func (c *credentials) authorize(req *http.Request) error {
	if c.tokenFile != "" {
		token, err := readSecret("--token-file", c.tokenFile)
		if err == nil {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		return err
	}
	user, from := os.Getenv(userVariable), "$"+userVariable
	if c.userFile != "" {
		var err error
		from = "--user-file " + c.userFile
		if user, err = readSecret("--user-file", c.userFile); err != nil {
			return err
		}
	} else if user == "" {
		return nil
	}
	name, password, ok := strings.Cut(user, ":")
	if !ok || name == "" {
		return fmt.Errorf("%s: want name:password", from)
	}
	req.SetBasicAuth(name, password)
	return nil
}

// readSecret reads a file of one line.
func readSecret(flag, path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	secret := strings.TrimRight(string(text), "\r\n")
	if secret == "" || strings.ContainsAny(secret, "\r\n") {
		return "", fmt.Errorf("%s %s: want one line", flag, path)
	}
	return secret, nil
}

// tls is how an https address is spoken to.
func (c *credentials) tls() (*tls.Config, error) {
	config := &tls.Config{InsecureSkipVerify: c.insecure}
	if c.caFile != "" {
		text, err := os.ReadFile(c.caFile)
		if err != nil {
			return nil, fmt.Errorf("--ca-file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--ca-file %s holds no certificate, PEM", c.caFile)
		}
	}
	if c.certFile != "" {
		pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
		if err != nil {
			return nil, fmt.Errorf("--cert-file %s, --key-file %s: %w", c.certFile, c.keyFile, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
