// Package agentwire is the protocol between agents and servers, generated from agent.proto by protoc with protoc-gen-go and
// protoc-gen-go-grpc.
package agentwire

// Protocol is the version of the protocol that this version of Sluice speaks. It rises with a message or a field
// without which the other end would understand the rest wrongly. The newer end then leaves out what the older one
// does not know: see Speaks.
const Protocol = 1

// Speaks reports whether this version works with one that speaks a version of the protocol: that before, the same, or
// the next.
func Speaks(protocol uint32) bool { return speaks(Protocol, protocol) }

func speaks(own, other uint32) bool { return other > 0 && other+1 >= own && other <= own+1 }

//go:generate protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative agent.proto
