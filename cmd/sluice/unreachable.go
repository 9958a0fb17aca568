package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"
)

// connectPatience is how long a server may take to accept a connection.
const connectPatience = 3 * time.Second

func dialer() *net.Dialer { return &net.Dialer{Timeout: connectPatience} }

// unreachable says that a server gave no answer, and why. It says nothing of what was asked.
type unreachable struct {
	text string
	err  error
}

func (u *unreachable) Error() string { return u.text }
func (u *unreachable) Unwrap() error { return u.err }

// noAnswer words the error of a request that got no answer. Port is the setting of "sluice serve" that names
// the port where one was looked for.
func noAnswer(base, port string, err error) error {
	var record tls.RecordHeaderError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var lookup *net.DNSError
	var wire *net.OpError
	text := ""
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, syscall.ECONNREFUSED):
		text = fmt.Sprintf("nobody listens on %s: is `sluice serve` running?", base)
	case errors.As(err, &lookup):
		text = fmt.Sprintf("%s: unknown host %s", base, lookup.Name)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), isTimeout(err):
		text = fmt.Sprintf("%s does not answer: is `sluice serve` running there, and can this machine reach it?", base)
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		text = fmt.Sprintf("%s speaks no TLS: want the port of --%s", base, port)
	case errors.As(err, &authority):
		voucher, wanted := "the kubeconfig does not vouch for", "the kubeconfig of that server"
		if port == "http-address" {
			voucher, wanted = "no authority known here vouches for", "--ca-file with its authority"
		}
		text = fmt.Sprintf("%s shows a certificate that %s: want %s, or --insecure-skip-tls-verify", base, voucher, wanted)
	case errors.As(err, &host):
		text = fmt.Sprintf("%s shows a certificate of another host: %s", base, host.Error())
	case errors.As(err, &wire):
		text = fmt.Sprintf("%s: %s", base, wire.Err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		text = fmt.Sprintf("%s hung up without an answer: want the port of --%s", base, port)
	default:
		text = fmt.Sprintf("%s gives no answer that makes sense (%s): want the port of --%s", base, rootOf(err), port)
	}
	return &unreachable{text, err}
}

func isTimeout(err error) bool {
	var slow net.Error
	return errors.As(err, &slow) && slow.Timeout()
}

// rootOf is the innermost error, without the address that all around it repeat.
func rootOf(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
