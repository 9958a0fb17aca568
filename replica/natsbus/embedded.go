package natsbus

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/sluice-metrics/sluice/internal/mutualtls"
)

const (
	// maxMessage bounds one message.
	maxMessage = 8 << 20
	// maxUnsent bounds the bytes that wait for one other replica. A replica that takes no more is
	// disconnected, and asks for the state of the others when it is back.
	maxUnsent = 64 << 20
	// pingsUnanswered is the number of pings after which a route is dead.
	pingsUnanswered = 3
	// reportEvery has attempts to connect, one a second, logged at the first and then each hour.
	reportEvery = 3600
)

// noPort is a port on which no server can listen. The embedded server must not listen for clients,
// but its option DontListen cannot be used: the server begins to listen for routes only when its
// attempt to listen for clients has ended (nats-server 2.15.2, Server.Start and StartRouting). So
// this attempt fails.
const noPort = 1 << 16

var errSilent = errors.New("it does not listen for other replicas")

// isNoPort reports whether the server failed to listen on noPort.
func isNoPort(err error) bool {
	var address *net.AddrError
	return errors.As(err, &address) && address.Err == "invalid port"
}

// startServer starts a NATS server that listens for other replicas only.
func startServer(cfg Config, within timeouts, secured *mutualtls.Certificates,
	log *slog.Logger) (*server.Server, error) {
	options, err := serverOptions(cfg, within, secured)
	if err != nil {
		return nil, err
	}
	embedded, err := server.NewServer(options)
	if err != nil {
		return nil, fmt.Errorf("make the embedded NATS server: %w", err)
	}
	adapted := newServerLog(log)
	embedded.SetLoggerV2(adapted, log.Enabled(context.Background(), slog.LevelDebug), false, false)
	embedded.Start()
	for end := time.Now().Add(within.start); ; time.Sleep(time.Millisecond) {
		fault := adapted.fatal.Load()
		switch {
		case embedded.ClusterAddr() != nil:
			adapted.started.Store(true)
			return embedded, nil
		case fault == nil && time.Now().Before(end):
			continue
		case fault == nil:
			fault = &errSilent
		}
		embedded.Shutdown()
		return nil, fmt.Errorf("start the embedded NATS server: %w", *fault)
	}
}

func serverOptions(cfg Config, within timeouts, secured *mutualtls.Certificates) (*server.Options, error) {
	host, port, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return nil, err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	if number == 0 {
		number = server.RANDOM_PORT
	}
	options := &server.Options{
		// NATS refuses another server of this name. A second process with the same configuration
		// must be heard, so that package replica names it.
		ServerName:      cfg.ReplicaName() + "-" + rand.Text(),
		Port:            noPort, // no client but this process
		NoSigs:          true,   // signals are the process's
		NoSystemAccount: true,
		MaxPayload:      maxMessage,
		MaxPending:      maxUnsent,
		WriteDeadline:   within.write,
		// A slow replica must not slow the publisher down.
		NoFastProducerStall: true,
		// Closed connections are remembered for a monitoring port that there is not.
		MaxClosedClients:      1,
		ConnectErrorReports:   reportEvery,
		ReconnectErrorReports: reportEvery,
		Cluster: server.ClusterOpts{
			Name: cfg.Cluster, Host: host, Port: number,
			NoAdvertise: true,
			// All messages are of one account, whose messages share one connection of a pool.
			PoolSize: -1,
			// Also of messages that do not shrink: the other end reads in larger pieces, which
			// halves the CPU time of a message.
			Compression:  server.CompressionOpts{Mode: server.CompressionS2Fast},
			PingInterval: within.ping, MaxPingsOut: pingsUnanswered,
			TLSTimeout: within.handshake.Seconds(),
		},
	}
	if secured != nil {
		options.Cluster.TLSConfig = secured.TLS()
	}
	for _, peer := range cfg.Peers {
		options.Routes = append(options.Routes, &url.URL{Scheme: "nats-route", Host: peer})
	}
	return options, nil
}
