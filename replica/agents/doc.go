// Package agents is the server's end of the agents of nodes: it applies their frames to the table. Before it stand agents
// (package agent); after it the table, as the writer that it declares.
//
//	server.go  the port: who may connect, and the streams
//	stream.go  one agent: frames in, acknowledgements out
//	apply.go   a change of a series becomes samples; what has to wait for its sender
//	memory.go  the memory of series and of what waits
//
// Invariants:
//
//	H1 Each sample of a frame counts once, whatever is sent again and whatever was restored: frames are numbered, and the
//	   table knows which of them its blocks include (aggregate/frames.go).
//	H2 A frame is acknowledged once it and all before are on disk.
//	H3 An agent speaks for pods of its own node alone. Where the sender of an address is not known yet, its changes wait
//	   here, and with them the acknowledgement.
package agents
