// Package agent is the receiving end of a node: it takes samples as a table does, counts them up, and tells a server. Before it stand
// the StatsD sockets; after it the server's package agents. The protocol is in agentwire.
//
//	collector.go  samples become changes of series; changes become numbered frames; frames stay until acknowledged
//	link.go       the stream to the server: it sends frames, again after a new connection, and hears what was rejected
//
// The agent decides nothing: which object a series describes, whether its sender may push it, and which limits hold, is
// known to the server alone. So an agent needs no right in the cluster, and no view of it.
//
// Invariants:
//
//	G1 A sample is in one change of one frame, from its application to the acknowledgement of the frame. What is
//	   dropped for lack of memory is counted as rejected.
//	G2 A frame keeps its number and content. Frames are sent in the order of their numbers, without a gap.
//	G3 The frames that are kept, and the changes that no frame has yet, take no more than Config.MaxBytes.
package agent
