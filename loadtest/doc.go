// Package loadtest measures the cost of a sluice server. It publishes no figure of a run in which a
// line is unaccounted for.
//
// The package uses only the server's network interfaces: it starts the binary, sends StatsD over
// loopback UDP or pushes over HTTP, and reads /metrics and the APIs. It shares no code with the
// server, except the generated code of KEDA's protocol. The command sluice-loadtest calls the
// package; the result is a table or JSON.
//
// A scenario (scenario.go) is a load of StatsD lines, or has a function that performs one run and
// returns figures (figure.go). A run of a load starts the server, warms it up (every series once),
// sends a fixed number of lines, waits until the kernel's queue is empty, reads the server's CPU
// clock, and checks the accounting (accounting.go):
//
//	sent = applied + rejected + lines in the datagrams that the kernel dropped
//	Σ of each kind's series = the expected sum
//
// The sender counts the lines sent, the kernel counts the drops, and the sums are read series by
// series. A run that does not add up is an error without figures. Other servers (peers.go) get the
// same load in the same run (peer_linux.go). They have no accounting, and the report says so.
//
// The load test then sends the same load to two floors (floor_linux.go): processes that read
// datagrams and count line ends. The gathering floor reads in the cheapest way: recvmmsg on a
// non-blocking descriptor outside Go's poller, with a sleep of 10 ms when few datagrams are
// queued. The blocking floor waits in recvmmsg, as most servers do. Both are written in Go, as the
// server is. The ratio of server and floor is the cost of parsing, look-up and applying, and varies
// less between machines than either figure.
//
// The scenarios of figureScenarios (run_linux.go) measure other figures: the time of a push, a read or a
// restart, losses, the cost of persistence. Each scenario checks the accounting. The floor of
// pushes is a bare fasthttp server. Scenarios with pods start a fake API server (fakeapiserver.go).
//
// CPU time is the server's own, user and system, in nanoseconds (its POSIX CPU clock), with the
// roller, persistence and garbage collection. The package needs Linux.
package loadtest
