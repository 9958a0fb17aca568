package loadtest

// FloorFlag makes "sluice loadtest" call Floor.
const FloorFlag = "floor-receiver"

// The floors: receivers that count line ends, or requests, and do nothing else.
const (
	// Gathering lets datagrams gather for a millisecond when there are few, as the server does. It is the
	// least that a line can cost.
	Gathering = "gathering"
	// Blocking waits in the kernel and is woken for every datagram that comes while it waits, as most
	// servers are.
	Blocking = "blocking"
	// Answering is the floor of HTTP pushes: a server that answers 200 to all, and nothing else.
	Answering = "answering"
)
