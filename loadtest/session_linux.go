package loadtest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// session sends prepared requests to one server over one keep-alive connection, one after the
// other. So the times are those of the server, not of a client's connection pool.
type session struct {
	conn net.Conn
	in   *bufio.Reader
	body bytes.Buffer
}

// askTimeout bounds the wait for one answer.
const askTimeout = time.Minute

func openSession(address string) (*session, error) {
	conn, err := net.Dial("tcp4", address)
	if err != nil {
		return nil, err
	}
	return &session{conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}, nil
}

// openAPI opens a session with a server's metrics API and verifies the certificate.
func openAPI(ctx context.Context, s *server) (*session, error) {
	authority, err := os.ReadFile(filepath.Join(s.dir, "data", "ca.crt"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, errors.New("ca.crt in the data folder holds no certificate")
	}
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: pool}}
	conn, err := dialer.DialContext(ctx, "tcp4", s.api)
	if err != nil {
		return nil, err
	}
	return &session{conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}, nil
}

// ask sends a request and returns the answer's status and body. The body is valid until the next
// request.
func (s *session) ask(request []byte) (int, []byte, error) {
	if err := s.conn.SetDeadline(time.Now().Add(askTimeout)); err != nil {
		return 0, nil, err
	}
	if _, err := s.conn.Write(request); err != nil {
		return 0, nil, err
	}
	resp, err := http.ReadResponse(s.in, nil)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	s.body.Reset()
	if _, err := s.body.ReadFrom(resp.Body); err != nil {
		return 0, nil, err
	}
	return resp.StatusCode, s.body.Bytes(), nil
}

// ask200 is ask, but returns an error for a status other than 200.
func (s *session) ask200(request []byte) ([]byte, error) {
	status, body, err := s.ask(request)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d: %.300s", status, body)
	}
	return body, err
}

func (s *session) close() error { return s.conn.Close() }

// apiToken is the load test's token. The fake API server accepts any.
const apiToken = "loadtest"

const (
	jsonMedia     = "application/json"
	protobufMedia = "application/vnd.kubernetes.protobuf"
)

// getRequest prepares a GET.
func getRequest(path, accept string) []byte {
	return fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nAccept: %s\r\n\r\n",
		path, apiToken, accept)
}

// bodyRequest prepares a request with a body.
func bodyRequest(method, path, body string) []byte {
	return fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", method,
		path, len(body), body)
}

// closing closes c and joins the error.
func closing(c interface{ close() error }, err *error) { *err = errors.Join(*err, c.close()) }
