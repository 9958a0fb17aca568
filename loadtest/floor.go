package loadtest

// FloorFlag makes "sluice loadtest" call Floor.
const FloorFlag = "floor-receiver"

// The two floors: receivers that count line ends and do nothing else.
const (
	// Gathering lets datagrams gather for a millisecond when there are few, as the server does. It is the
	// least that a line can cost.
	Gathering = "gathering"
	// Blocking waits in the kernel and is woken for every datagram that comes while it waits, as most
	// servers are.
	Blocking = "blocking"
)
