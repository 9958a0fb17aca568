package loadtest

// floorEnv is the environment variable that names a floor. A process that has the variable is a
// floor.
const floorEnv = "SLUICE_LOADTEST_FLOOR"

// The floors: receivers that count line ends, or requests, and do nothing else.
const (
	// gathering lets datagrams gather for 10 ms when there are few, as the server does. It
	// is the least possible cost of a line.
	gathering = "gathering"
	// blocking waits in the kernel, which wakes it for every datagram that arrives meanwhile, as it
	// wakes most servers.
	blocking = "blocking"
	// answering is the floor of HTTP pushes: a server that only answers 200 to every request.
	answering = "answering"
)
