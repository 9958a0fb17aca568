package push

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sluice-metrics/sluice/adapter/export"
	"github.com/sluice-metrics/sluice/adapter/inspect/record"
	"github.com/sluice-metrics/sluice/adapter/policy"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver"
	"github.com/sluice-metrics/sluice/receiver/credential"
	"github.com/sluice-metrics/sluice/receiver/group"
	"github.com/sluice-metrics/sluice/receiver/ledger"
	"github.com/sluice-metrics/sluice/receiver/pending"
	"github.com/sluice-metrics/sluice/receiver/push/httpserver"
	"github.com/sluice-metrics/sluice/receiver/push/native"
	"github.com/sluice-metrics/sluice/receiver/push/otlpgrpc"
	"github.com/sluice-metrics/sluice/receiver/push/otlphttp"
	"github.com/sluice-metrics/sluice/receiver/push/pushgateway"
	"github.com/sluice-metrics/sluice/receiver/push/remotewritehttp"
	"github.com/sluice-metrics/sluice/receiver/push/serieshttp"
	"github.com/sluice-metrics/sluice/receiver/push/statsdhttp"
	"github.com/valyala/fasthttp"
)

// Parts are the parts of Sluice that the receiver uses.
type Parts struct {
	// NewApplier makes an Applier that is online.
	NewApplier func() Applier
	Reader     native.Reader
	Resources  httpserver.Resources
	// Syncer may be nil: nothing is stored, and ?sync=true is rejected.
	Syncer httpserver.Syncer
	// Replicas may be nil: there are no others, and ?sync=all is ?sync=true.
	Replicas Replicas
	// Answers reports whether answers are complete, and what is missing otherwise; nil: always.
	Answers func() (bool, string)
	// Lister lists metrics, for GET /v1/namespaces; nil: nothing is listed.
	Lister native.Lister
	// Series reads all series, for GET /metrics/series, and waits for the disk that keeps them and the
	// groups.
	Series export.Source
	// Histograms reports whether Series has the buckets of timers.
	Histograms bool
	// Groups keeps the groups of the Pushgateway protocol.
	Groups *group.Groups
	Ledger *ledger.Ledger
	Logger *slog.Logger
	// Listener is used instead of Config.Address, unless nil. Its connections must have CloseWrite, as
	// those of TCP.
	Listener net.Listener
	// Build says which build this is, for GET /api/v1/status.
	Build map[string]string
	// Worded rewrites an error about a file that was read again in the words of the configuration;
	// nil: errors name the fields of Config.
	Worded func(error) error
	// Full names the setting that limits series, where none of the limits of Trust does; may be
	// empty.
	Full string
	// Freshen applies the data that the sockets of StatsD hold: a push comes after what was sent
	// before. It may be nil.
	Freshen func()
	// KindOf returns the kind of the series that conflicts with a sample (metric.NoKind: there is none any
	// more). It may be nil.
	KindOf func(*metric.Sample) metric.Kind

	// The fields below are nil if senders are not checked, as without a cluster.

	// Senders knows the sender of an address.
	Senders receiver.Senders
	// Trust says what a sender may do.
	Trust httpserver.Trust
	// Authority says which account a token names, and what accounts were granted.
	Authority credential.Authority
	// Policies say which external metrics a reader may have, beyond its rights.
	Policies policy.Checker
	// Requirements parses the selectors of operands that rules have. It is set if Policies is.
	Requirements func(selector string) ([]policy.Requirement, error)
	// Pods knows the pods that tokens are bound to.
	Pods httpserver.Pods
	// Pending holds the samples that are neither applied nor rejected yet.
	Pending *pending.Buffer
	// Alive reports whether an object's values may be read.
	Alive func(metric.Object) bool

	// Record and Rejections remember senders and rejected samples for lists; may be nil.
	Record     *record.Senders
	Rejections *record.Rejections
}

// Errors of New about an address are of OTLPAddress, of OTLPGRPCAddress, or otherwise of Address.
var (
	ErrOTLPAddress     = httpserver.ErrOTLPAddress
	ErrOTLPGRPCAddress = otlpgrpc.ErrAddress
)

// Replicas are this process and the others that answer for it.
type Replicas = httpserver.Replicas

// Applier is a goroutine's path into the table.
type Applier = httpserver.Applier

// Server is the HTTP receiver.
type Server struct {
	*httpserver.Server
	gateway *pushgateway.Handler
	series  *serieshttp.Handler
	grpc    *otlpgrpc.Door // nil: off
}

// Register registers the metrics of the server and its protocols.
func (s *Server) Register(r prometheus.Registerer) error {
	err := errors.Join(s.Server.Register(r), r.Register(s.series))
	if s.grpc != nil {
		err = errors.Join(err, r.Register(s.grpc))
	}
	return err
}

// Run serves until ctx ends, lets requests in flight finish within ShutdownTimeout, and returns nil. It
// returns an error if serving ended by itself. Run may be called once.
func (s *Server) Run(ctx context.Context) error {
	if s.grpc == nil {
		return s.Server.Run(ctx, nil)
	}
	return s.Server.Run(ctx, s.grpc)
}

// New binds the address. The caller must call Run, if only with a context that has ended.
func New(cfg Config, parts Parts) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("push: %w", err)
	}
	limits := cfg.Config
	if cfg.OTLPGRPCAddress != "" {
		limits.MaxBufferedBytes = max(limits.MaxBufferedBytes, otlpgrpc.MaxBuffered)
	}
	gateway := pushgateway.New(parts.Groups, pushgateway.Config{
		TTL: cfg.GroupTTL, PendingTimeout: cfg.PendingTimeout, AdminWipe: cfg.AdminWipe, Build: parts.Build,
		Policies: parts.Policies, Disk: parts.Series,
	}, limits)
	series := serieshttp.New(parts.Series, parts.Histograms, parts.Policies)
	server, err := httpserver.New(limits, httpserver.Parts{
		NewApplier: parts.NewApplier, Resources: parts.Resources, Syncer: parts.Syncer, Replicas: parts.Replicas,
		Ledger: parts.Ledger,
		Logger: parts.Logger, Listener: parts.Listener, Worded: parts.Worded, Full: parts.Full, KindOf: parts.KindOf,
		Freshen: parts.Freshen, Senders: parts.Senders, Trust: parts.Trust,
		Authority: parts.Authority, Pods: parts.Pods, Pending: parts.Pending,
		Record: parts.Record, Rejections: parts.Rejections,
	}, withIndex(routes(cfg, parts, gateway, series)))
	if err != nil {
		return nil, err
	}
	s := &Server{Server: server, gateway: gateway, series: series}
	if cfg.OTLPGRPCAddress == "" {
		return s, nil
	}
	if s.grpc, err = otlpgrpc.New(cfg.OTLPGRPCAddress, server, limits, parts.Logger); err != nil {
		ended, end := context.WithCancel(context.Background())
		end()
		return nil, errors.Join(err, server.Run(ended, nil))
	}
	return s, nil
}

// routes returns the routes of all protocols. To add a protocol, add a line here.
func routes(cfg Config, parts Parts, gateway *pushgateway.Handler,
	series *serieshttp.Handler) (all []*httpserver.Route) {
	limits := cfg.Config
	for _, protocol := range []interface{ Routes() []*httpserver.Route }{
		native.New(parts.Reader, parts.Alive, parts.Policies, parts.Requirements),
		statsdhttp.New(cfg.Dialect),
		remotewritehttp.New(limits),
		otlphttp.New(limits, cfg.OTLPResourceAttributes),
		gateway,
		series,
		native.NewLists(parts.Lister, parts.Policies),
	} {
		all = append(all, protocol.Routes()...)
	}
	if parts.Answers != nil {
		for _, route := range all {
			route.Get = whenComplete(parts.Answers, route)
		}
	}
	return all
}

// whenComplete is the Get of a route, while answers are complete.
func whenComplete(complete func() (bool, string), route *httpserver.Route) func(*httpserver.Request) {
	get := route.Get
	if get == nil || route.Public {
		return get
	}
	return func(x *httpserver.Request) {
		if ready, why := complete(); !ready {
			x.Fail(httpserver.NotYet("%s", why))
			return
		}
		get(x)
	}
}

type indexAnswer struct {
	Name  string   `json:"name"`
	Paths []string `json:"paths"`
	Notes []string `json:"notes"`
}

// withIndex adds the routes that describe the others.
func withIndex(routes []*httpserver.Route) []*httpserver.Route {
	openapi := &httpserver.Route{
		Paths: []string{"/openapi.json"}, Index: []string{"/openapi.json"},
		Tag: "about", Operations: []httpserver.Operation{
			{Method: "GET", Path: "/openapi.json", ID: "openapi", Summary: "This document", Answers: "200:OpenAPI"},
		},
	}
	index := &httpserver.Route{
		Paths: []string{"/", "/v1", "/v1/"},
		Tag:   "about", Operations: []httpserver.Operation{
			{Method: "GET", Path: "/", ID: "describe", Summary: "What this port takes, in short; also at /v1",
				Answers: "200:Index"},
		},
	}
	var paths []string
	var document []byte
	index.Get = func(x *httpserver.Request) { describe(x, paths) }
	openapi.Get = func(x *httpserver.Request) {
		x.HTTP.SetStatusCode(fasthttp.StatusOK)
		x.HTTP.SetContentType(httpserver.ContentType)
		x.HTTP.Response.SetBodyRaw(document) // no copy, which each reader could hold
	}
	routes = append(routes, openapi, index)
	paths, document = httpserver.IndexOf(routes), describeRoutes(routes)
	return routes
}

// describe answers the index.
func describe(x *httpserver.Request, paths []string) {
	x.Reply(fasthttp.StatusOK, indexAnswer{
		Name:  "sluice: metrics over HTTP",
		Paths: paths,
		Notes: []string{
			"GET /openapi.json says all of this for machines: parameters, bodies, answers.",
			"PUT sets a gauge, POST adds to a counter; the body is a number.",
			"?type=counter|gauge|timer|set, ?label=key=value (repeatable), ?ttl=1h or forever, ?rate=0.1, ?sync=true",
			"GET reads {metric}, or {metric}:{stat}:{window}; the name * reads all objects. DELETE removes.",
			`"/" in a metric's name is written "%2F" or "\|".`,
			`A line of /v1/samples: {"name":"jobs_done","type":"counter","value":1,"namespace":"shop","object":"pods/web-1","labels":{"queue":"mail"}}`,
		},
	})
}

// openapiText is the OpenAPI document without its paths, which come from the routes. Tests check
// parameters and reasons, and the answers of a running server.
//
//go:embed openapi.json
var openapiText []byte

// describeRoutes returns the document that GET /openapi.json answers with.
func describeRoutes(routes []*httpserver.Route) []byte {
	document, err := httpserver.OpenAPI(openapiText, routes)
	if err != nil { // a test makes it
		panic("push: openapi.json: " + err.Error())
	}
	return document
}
