// Package loadtest measures what a sluice server costs, and believes no figure whose books do not balance.
//
// It speaks the wire only: it starts the binary as a process of its own, sends StatsD over loopback UDP or
// pushes over HTTP, and asks /metrics and the APIs what became of it. It shares no code with what it measures.
// Before it stands the command "sluice-loadtest", after it a table or JSON.
//
// A scenario (scenario.go) is a load of StatsD lines, or has a function of its own that does one run and returns
// figures (figure.go). The rest of this is of loads.
//
// A run is: start the server, warm up (every series once), send a fixed number of lines, wait until the
// kernel's queue is empty, read the server's CPU clock, and check the books (books.go):
//
//	sent = applied + rejected + lines in the datagrams that the kernel dropped
//	Σ of each kind's series = what it has to be
//
// where sent is counted by the sender, drops by the kernel, and the sums are read series by series. A run
// that does not add up is an error and yields no figures. A server that is not ours (target_linux.go) has no
// books, and the report says so.
//
// The same load then goes to the floor: a process that only takes datagrams off a socket, in the way that
// costs least (recvmmsg on a non-blocking descriptor outside Go's poller, asleep for a millisecond when there
// is little), and counts line ends. Nothing that receives UDP lines through the socket API does less. It is
// written in Go as the server is, not in C: the ratio of the two is what parsing, finding the series and
// applying cost, and holds from machine to machine better than either figure. A second floor blocks in
// recvmmsg, as most servers do.
//
// The other scenarios (figurescenarios_linux.go) measure figures of their own: how long a push, a read or a
// restart takes, what is lost, what it costs to persist. Each has its books: what was sent must be there, or be
// told of as dropped. Pushes are compared with a floor of their own, a bare fasthttp server. Those that need
// the pods of a cluster start a stand-in of an API server (standin.go), which lists and streams as many as are
// asked for and says yes to every token and right; nothing ever changes in it.
//
// The CPU time is the process's own, user and system, in nanoseconds (its POSIX CPU clock); the roller,
// persistence and the garbage collector are in it. It needs Linux.
package loadtest
