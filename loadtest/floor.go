package loadtest

// floorEnv names a floor: a process that has it in its environment is one.
const floorEnv = "SLUICE_LOADTEST_FLOOR"

// The floors: receivers that count line ends, or requests, and do nothing else.
const (
	// gathering lets datagrams gather for a millisecond when there are few, as the server does. It
	// is the least that a line can cost.
	gathering = "gathering"
	// blocking waits in the kernel and is woken for every datagram that comes while it waits, as
	// most servers are.
	blocking = "blocking"
	// answering is the floor of HTTP pushes: a server that answers 200 to all, and nothing else.
	answering = "answering"
)
