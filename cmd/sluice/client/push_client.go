package client

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

// UserVariable is the environment variable with name:password, where --user-file is not set.
const UserVariable = "SLUICE_PUSH_USER"

// credentials are those of the client and its trust in the server. Secrets come from files or the
// environment: every user of the machine can see arguments.
type credentials struct {
	tokenFile string
	userFile  string
	certFile  string
	keyFile   string
	caFile    string
	insecure  bool
}

func (c *credentials) bind(flags *pflag.FlagSet) {
	flags.StringVar(&c.tokenFile, "token-file", "", "File with a bearer token for the server.")
	flags.StringVar(&c.userFile, "user-file", "", "File with name:password for the server; empty: the variable $"+UserVariable+", if it is set.")
	flags.StringVar(&c.certFile, "cert-file", "", "Client certificate for the server, in PEM.")
	flags.StringVar(&c.keyFile, "key-file", "", "Private key of --cert-file, in PEM.")
	flags.StringVar(&c.caFile, "ca-file", "", "Certificate authorities to trust for an https address, in PEM; empty: the system's.")
	flags.BoolVar(&c.insecure, "insecure-skip-tls-verify", false, "Accept any certificate of the server.")
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
		faults = append(faults, errors.New("--token-file and --user-file are set; must be one of them"))
	}
	if (c.certFile == "") != (c.keyFile == "") {
		faults = append(faults, errors.New("--cert-file or --key-file is set alone; must be both or neither"))
	}
	return errors.Join(faults...)
}

// authorize sets the Authorization header, if there are credentials for it.
func (c *credentials) authorize(req *http.Request) error {
	if c.tokenFile != "" {
		token, err := readSecret("--token-file", c.tokenFile)
		if err == nil {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		return err
	}
	user, from := os.Getenv(UserVariable), "$"+UserVariable
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
		return fmt.Errorf("%s: must be name:password", from)
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
		return "", fmt.Errorf("%s %s: must be one line", flag, path)
	}
	return secret, nil
}

// tls is the TLS configuration for an https address.
func (c *credentials) tls() (*tls.Config, error) {
	config := &tls.Config{InsecureSkipVerify: c.insecure}
	if c.caFile != "" {
		text, err := os.ReadFile(c.caFile)
		if err != nil {
			return nil, fmt.Errorf("--ca-file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--ca-file %s holds no certificate; must hold certificates in PEM", c.caFile)
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
