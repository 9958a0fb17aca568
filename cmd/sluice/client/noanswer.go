package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"
)

// ConnectTimeout bounds the connecting to a server. Tests set another one.
var ConnectTimeout = 3 * time.Second

func dialer() *net.Dialer { return &net.Dialer{Timeout: ConnectTimeout} }

// unreachable is the error of a request without a response.
type unreachable struct {
	text string
	err  error
}

func (u *unreachable) Error() string { return u.text }
func (u *unreachable) Unwrap() error { return u.err }

// kubernetesAPI is the port of a cluster's API server, which no setting of Sluice names.
const kubernetesAPI = ""

// noAnswer describes the error of a request without a response. Port is the setting of "sluice
// serve" that names the expected port, or kubernetesAPI.
func noAnswer(base, port string, err error) error {
	var record tls.RecordHeaderError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var lookup *net.DNSError
	var wire *net.OpError
	base = redacted(base)
	text, wanted := "", "must be the port of --"+port
	if port == kubernetesAPI {
		wanted = "must be the API server of a cluster"
	}
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, syscall.ECONNREFUSED) && port == kubernetesAPI:
		text = fmt.Sprintf("nothing listens on %s, the API server in the kubeconfig: is its cluster running, and is this the right context?", base)
	case errors.Is(err, syscall.ECONNREFUSED):
		text = fmt.Sprintf("nothing listens on %s: is `sluice serve` running?", base)
	case errors.As(err, &lookup):
		text = fmt.Sprintf("%s: unknown host %s", base, lookup.Name)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), isTimeout(err):
		if port == kubernetesAPI {
			text = fmt.Sprintf("%s, the API server in the kubeconfig, does not answer: is its cluster running, and can this machine reach it?", base)
			break
		}
		text = fmt.Sprintf("%s does not answer: is `sluice serve` running there, and can this machine reach it?", base)
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		text = fmt.Sprintf("%s does not speak TLS; %s", base, wanted)
	case errors.As(err, &authority):
		voucher, remedy := "the kubeconfig does not vouch for", "the kubeconfig of that server"
		if port == "http-address" {
			voucher, remedy = "no authority known here vouches for", "--ca-file with its authority"
		}
		text = fmt.Sprintf("%s shows a certificate that %s; must have %s, or --insecure-skip-tls-verify",
			base, voucher, remedy)
	case errors.As(err, &host):
		text = fmt.Sprintf("%s shows a certificate of another host: %s", base, host.Error())
	case errors.As(err, &invalid):
		text = fmt.Sprintf("%s shows an invalid certificate: %s", base, invalid.Error())
	case errors.As(err, &wire):
		text = fmt.Sprintf("%s: %s", base, wire.Err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		text = fmt.Sprintf("%s closed the connection without a response; %s", base, wanted)
	default:
		text = fmt.Sprintf("%s gives an invalid response (%s); %s", base, rootOf(err), wanted)
	}
	return &unreachable{text, err}
}

func isTimeout(err error) bool {
	var slow net.Error
	return errors.As(err, &slow) && slow.Timeout()
}

// rootOf is the innermost error, without the address that its wrappers repeat.
func rootOf(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// redacted is a URL without the user, who may be a token, and the password that a kubeconfig may have in it.
func redacted(base string) string {
	parsed, err := url.Parse(base)
	if err != nil {
		return "***" + base[max(strings.LastIndexByte(base, '@'), 0):]
	}
	if parsed.User != nil {
		parsed.User = url.User("xxxxx") // as URL.Redacted has a password
	}
	return parsed.String()
}
